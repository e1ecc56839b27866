package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster holds the settings of the whole cluster. There is one, named
// "cluster".
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec,omitempty"`
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSpec is what Git says of the cluster.
type ClusterSpec struct {
	// Domain is the DNS domain of services. Default "cluster.local".
	Domain string `json:"domain,omitempty"`
	// PodCIDR is the range of pod addresses. Default "10.244.0.0/16".
	PodCIDR string `json:"podCIDR,omitempty"`
	// ServiceCIDR is the range of ClusterIPs. Default "10.96.0.0/16".
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
}

// ClusterStatus is what the cluster says of itself.
type ClusterStatus struct {
	// Version is the version of writ that serves the API.
	Version string `json:"version,omitempty"`
	// Commits are the newest commits applied, by repository.
	Commits map[string]string `json:"commits,omitempty"`
}

// ClusterList is a list of Cluster.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// Repository is a Git repository that the cluster follows.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Repository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RepositorySpec   `json:"spec"`
	Status RepositoryStatus `json:"status,omitempty"`
}

// RepositorySpec says where the repository is and what of it to follow, whom
// to trust, and what to do when a commit is not well.
type RepositorySpec struct {
	// URL is https://, ssh://, file:// or, for the built-in remote, "builtin".
	URL string `json:"url"`
	// Branch to follow. Default "main". Where several are set, commit goes
	// before semver, semver before tag, and tag before branch.
	Branch string `json:"branch,omitempty"`
	// Tag to follow.
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of versions; the newest tag in it is followed: "~1.4".
	SemVer string `json:"semver,omitempty"`
	// Commit is the one commit to apply, in 40 hexadecimal digits.
	Commit string `json:"commit,omitempty"`
	// Path is the folder to read, relative to the root. Default ".".
	Path string `json:"path,omitempty"`
	// Priority decides between repositories that declare the same object: the
	// higher keeps it. Between equals, the one that declared it first does.
	Priority int32 `json:"priority,omitempty"`
	// Interval between two polls. Default 15s.
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Timeout of one fetch. Default 60s.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// HealthTimeout is how long a commit may take to become healthy. Default
	// 10m.
	HealthTimeout *metav1.Duration `json:"healthTimeout,omitempty"`
	// CredentialsSecret is namespace/name of a Secret with username and
	// password, bearerToken, ssh-privatekey and known_hosts, or ca.crt.
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
	// Webhook is what the forge calls when somebody has pushed.
	Webhook *RepositoryWebhook `json:"webhook,omitempty"`
	// Variables replace ${name} in manifests.
	Variables map[string]string `json:"variables,omitempty"`
	// VariablesFrom are namespace/name of ConfigMaps, or secret:namespace/name,
	// whose keys are variables too. Later ones win, and Variables over all.
	VariablesFrom []string `json:"variablesFrom,omitempty"`
	// Decryption opens secrets that are encrypted in the repository.
	Decryption *RepositoryDecryption `json:"decryption,omitempty"`
	// Verification says whose signatures commits need.
	Verification *RepositoryVerification `json:"verification,omitempty"`
	// OnError is Refuse (a commit enters whole or not at all) or Continue
	// (objects without findings enter, the others stay as they are). Default
	// Refuse.
	OnError OnError `json:"onError,omitempty"`
	// Rollback goes back to the last healthy commit by itself. Absent: it does
	// not.
	Rollback *RepositoryRollback `json:"rollback,omitempty"`
	// Deletions is how much one commit may delete.
	Deletions *RepositoryDeletions `json:"deletions,omitempty"`
	// Ignore are fields or objects whose drift is left alone.
	Ignore []IgnoreRule `json:"ignore,omitempty"`
	// Undeclared is what becomes of fields of declared objects that Git leaves
	// out and others have set: Keep (they are told of in the status) or Remove
	// (they are taken back, but for what Ignore names). Default Keep.
	Undeclared UndeclaredFields `json:"undeclared,omitempty"`
	// Notifications are whom to tell of a commit's phases.
	Notifications []Notification `json:"notifications,omitempty"`
	// Prune says whether objects that Git does not declare any more are
	// deleted. Default true.
	Prune *bool `json:"prune,omitempty"`
	// Suspend stops reading the repository; what was applied stays.
	Suspend bool `json:"suspend,omitempty"`
	// Pushes say who may push what to the built-in remote; what no rule allows is
	// refused. Break-glass may always push. None: the groups writ:pushers and
	// system:masters may push everything.
	Pushes []PushRule `json:"pushes,omitempty"`
	// Mirrors are repositories on other hosts that are kept in step with the
	// built-in remote.
	Mirrors []RepositoryMirror `json:"mirrors,omitempty"`
}

// PushRule says what some users may push. It names at least one user or group.
type PushRule struct {
	// Users and Groups are whom the rule is for; "*" is everyone who is signed
	// in. One match is enough.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Refs that may be pushed, in full: refs/heads/main. One that ends in *
	// stands for all that begin so. Default: all.
	Refs []string `json:"refs,omitempty"`
	// Paths of files and folders that may be changed. What a push changes may be
	// allowed by several rules together. Default: all.
	Paths []string `json:"paths,omitempty"`
	// Force lets the followed branch be rewritten, Delete lets it be deleted.
	Force  bool `json:"force,omitempty"`
	Delete bool `json:"delete,omitempty"`
}

// MirrorDirection is which way commits go.
type MirrorDirection string

// The values of MirrorDirection.
const (
	MirrorPush MirrorDirection = "Push"
	MirrorPull MirrorDirection = "Pull"
)

// RepositoryMirror is a repository on another host.
type RepositoryMirror struct {
	// URL is https:// or ssh://.
	URL string `json:"url"`
	// CredentialsSecret is namespace/name of a Secret with username and
	// password, bearerToken, ssh-privatekey and known_hosts, or ca.crt.
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
	// Direction is Push (what is pushed here is pushed there) or Pull (what is
	// there is brought here, as a push that is checked). Default Push.
	Direction MirrorDirection `json:"direction,omitempty"`
	// Refs to keep in step, as those of a PushRule. Default refs/heads/* and
	// refs/tags/*.
	Refs []string `json:"refs,omitempty"`
	// Force lets a ref of the copy be rewritten or deleted. Without it one that
	// has gone another way is a failure.
	Force bool `json:"force,omitempty"`
	// Interval between two looks, at least 1s. Default 1m. A push here is passed
	// on at once.
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Timeout of one exchange. Default 5m.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// OnError is what becomes of a commit of which a part is wrong.
type OnError string

// The values of OnError.
const (
	OnErrorRefuse   OnError = "Refuse"
	OnErrorContinue OnError = "Continue"
)

// UndeclaredFields is what becomes of fields that Git leaves out.
type UndeclaredFields string

// The values of UndeclaredFields.
const (
	UndeclaredKeep   UndeclaredFields = "Keep"
	UndeclaredRemove UndeclaredFields = "Remove"
)

// RepositoryWebhook is how the forge tells of a push.
type RepositoryWebhook struct {
	// Provider is github, gitlab, gitea, bitbucket or generic.
	Provider string `json:"provider"`
	// Secret is namespace/name of a Secret with the key "token".
	Secret string `json:"secret"`
}

// RepositoryDecryption holds the keys of encrypted files.
type RepositoryDecryption struct {
	// Secret is namespace/name of a Secret: age identities under keys that end
	// in .agekey, armored OpenPGP private keys under keys that end in .asc.
	Secret string `json:"secret"`
}

// RepositoryVerification says whose signatures commits need.
type RepositoryVerification struct {
	// Mode is Off, Warn or Require. Default Require.
	Mode string `json:"mode,omitempty"`
	// Secret is namespace/name of a Secret with the first trusted policy under
	// the key "trust.yaml"; afterwards that of the last applied commit holds.
	Secret string `json:"secret,omitempty"`
}

// RepositoryRollback says when to go back.
type RepositoryRollback struct {
	// After is how long a commit may be unhealthy. Default: healthTimeout.
	After *metav1.Duration `json:"after,omitempty"`
}

// RepositoryDeletions is how much a commit may delete without a word in its
// message.
type RepositoryDeletions struct {
	// MaxObjects of one commit. Default 50.
	MaxObjects *int32 `json:"maxObjects,omitempty"`
	// MaxPercent of all that the repository declares. Default 20.
	MaxPercent *int32 `json:"maxPercent,omitempty"`
}

// IgnoreRule names what is left alone when it differs from Git. Kind,
// namespace and name are globs; empty ones match everything.
type IgnoreRule struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Fields are JSON pointers: /spec/replicas. None: the whole object.
	Fields []string `json:"fields,omitempty"`
}

// Notification is somebody to tell.
type Notification struct {
	Name string `json:"name"`
	// Type is webhook, slack, github, gitlab or gitea.
	Type string `json:"type"`
	URL  string `json:"url"`
	// Secret is namespace/name of a Secret with the key "token".
	Secret string `json:"secret,omitempty"`
	// Phases to tell of. Default: all but Pending.
	Phases []CommitPhase `json:"phases,omitempty"`
}

// RepositorySandboxed is the condition of a Repository that says whether what it
// holds is evaluated in a child process with every layer that keeps it apart.
const RepositorySandboxed = "Sandboxed"

// RepositoryStatus is what was last seen of the repository.
type RepositoryStatus struct {
	// Head is the newest commit seen on the branch.
	Head string `json:"head,omitempty"`
	// Applied is the newest commit that entered the cluster.
	Applied string `json:"applied,omitempty"`
	// Healthy is the newest commit that has become healthy.
	Healthy string `json:"healthy,omitempty"`
	// Tag is the tag that is followed, where the spec gives a range.
	Tag string `json:"tag,omitempty"`
	// Failed are commits that are not tried again, newest first, at most 20.
	Failed []string `json:"failed,omitempty"`
	// Objects is how many objects the repository declares.
	Objects int32 `json:"objects,omitempty"`
	// Drifted are the objects that last differed from Git, at most 20: first those
	// that cannot be put back (Stuck), then those with fields that others have set
	// and Git leaves out (Undeclared), then those that were put back (Healed).
	Drifted []ObjectHealth `json:"drifted,omitempty"`
	// LastFetchTime is when the remote was last asked.
	LastFetchTime *metav1.Time `json:"lastFetchTime,omitempty"`
	// Conditions: Ready (the remote answers and its head is applied).
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Mirrors are how those of the spec are doing.
	Mirrors []MirrorStatus `json:"mirrors,omitempty"`
}

// MirrorStatus is how a mirror is doing.
type MirrorStatus struct {
	// URL without user and password.
	URL       string          `json:"url"`
	Direction MirrorDirection `json:"direction"`
	// InStepTime is when both came to have the refs that they last agreed on, or
	// agreed again after a failure.
	InStepTime *metav1.Time `json:"inStepTime,omitempty"`
	// FailingTime is since when exchanges fail. Absent: the last one went well.
	FailingTime *metav1.Time `json:"failingTime,omitempty"`
	// Message says why they fail.
	Message string `json:"message,omitempty"`
}

// RepositoryList is a list of Repository.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type RepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Repository `json:"items"`
}

// CommitPhase is where a commit is on its way into the cluster.
type CommitPhase string

// The phases of a commit. Pending -> Applied -> Healthy is the good way;
// Failed means that the commit was refused and the cluster is as it was before,
// or that it was applied and did not become healthy in time; Superseded that a
// newer commit took its place.
const (
	CommitPending    CommitPhase = "Pending"
	CommitApplied    CommitPhase = "Applied"
	CommitHealthy    CommitPhase = "Healthy"
	CommitFailed     CommitPhase = "Failed"
	CommitSuperseded CommitPhase = "Superseded"
)

// Commit is one Git commit on its way into the cluster. Its name is
// <repository>-<first 12 digits of the SHA>.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Commit struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CommitSpec   `json:"spec"`
	Status CommitStatus `json:"status,omitempty"`
}

// CommitSpec identifies the commit.
type CommitSpec struct {
	Repository string      `json:"repository"`
	SHA        string      `json:"sha"`
	Parent     string      `json:"parent,omitempty"`
	Branch     string      `json:"branch,omitempty"`
	Author     string      `json:"author,omitempty"`
	Message    string      `json:"message,omitempty"`
	Time       metav1.Time `json:"time,omitempty"`
}

// CommitStatus is how far the commit has come.
type CommitStatus struct {
	Phase CommitPhase `json:"phase,omitempty"`
	// Reason is a CamelCase word for the phase: "Refused", "Progressing", ...
	Reason string `json:"reason,omitempty"`
	// Message says in a sentence what the phase means here.
	Message string `json:"message,omitempty"`

	// Objects is how many objects the commit declares; Created, Updated,
	// Deleted and Unchanged what applying it did to them.
	Objects   int32 `json:"objects,omitempty"`
	Created   int32 `json:"created,omitempty"`
	Updated   int32 `json:"updated,omitempty"`
	Deleted   int32 `json:"deleted,omitempty"`
	Unchanged int32 `json:"unchanged,omitempty"`
	// Ready is how many of the declared objects are healthy.
	Ready int32 `json:"ready,omitempty"`

	// Findings are why the commit was refused.
	Findings []Finding `json:"findings,omitempty"`
	// Warnings are what policies say of the commit that does not keep it out, at
	// most 50.
	Warnings []Finding `json:"warnings,omitempty"`
	// Unhealthy are the declared objects that are not healthy yet, at most 20.
	Unhealthy []ObjectHealth `json:"unhealthy,omitempty"`

	// Changes are what applying the commit did, at most 200 objects;
	// ChangesOmitted is how many more there were.
	Changes        []CommitChange `json:"changes,omitempty"`
	ChangesOmitted int32          `json:"changesOmitted,omitempty"`
	// Consequences are what followed and its author may not have expected.
	Consequences []CommitConsequence `json:"consequences,omitempty"`
	// RolledBackTo is the commit whose content is in force since this one
	// failed.
	RolledBackTo string `json:"rolledBackTo,omitempty"`
	// Signature is what is known of who signed the commit.
	Signature *CommitSignature `json:"signature,omitempty"`

	SeenTime     *metav1.MicroTime `json:"seenTime,omitempty"`
	RenderedTime *metav1.MicroTime `json:"renderedTime,omitempty"`
	PlannedTime  *metav1.MicroTime `json:"plannedTime,omitempty"`
	AppliedTime  *metav1.MicroTime `json:"appliedTime,omitempty"`
	HealthyTime  *metav1.MicroTime `json:"healthyTime,omitempty"`
	FailedTime   *metav1.MicroTime `json:"failedTime,omitempty"`
	// ResourceVersion is the store revision at which the commit entered.
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// CommitChange is what a commit did to one object.
type CommitChange struct {
	// Action is create, update, replace or delete.
	Action string `json:"action"`
	// Object is kind/namespace/name.
	Object string `json:"object"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	// Fields that changed, at most 20. The values of Secrets are hidden.
	Fields []FieldChange `json:"fields,omitempty"`
}

// FieldChange is one field that changed. Old and New are JSON; empty where
// there is no value.
type FieldChange struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// CommitConsequence is something that follows from a commit.
type CommitConsequence struct {
	Object string `json:"object"`
	// Kind is Restart, DataLoss, NamespaceDelete, Replace, Drain or Reboot.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// CommitSignature is what is known of who signed a commit.
type CommitSignature struct {
	// State is Verified, Unsigned, Unknown (a key that is not trusted) or Bad.
	State  string `json:"state"`
	Key    string `json:"key,omitempty"`
	Signer string `json:"signer,omitempty"`
	// Message says why it is not Verified.
	Message string `json:"message,omitempty"`
}

// Finding is one thing that is wrong with a commit, at one place of it. Line
// and Column count from 1; 0 when the finding is about a whole file or commit.
type Finding struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Object is kind/namespace/name where the finding is about one object.
	Object string `json:"object,omitempty"`
	// Field is the path in the object: spec.template.spec.containers[0].image.
	Field string `json:"field,omitempty"`
	// Rule is a stable CamelCase word: UnknownField, WrongType, OutOfRange,
	// Required, Duplicate, Syntax, Immutable, Forbidden, TooLarge, ...
	Rule    string `json:"rule"`
	Message string `json:"message"`
	// Hint says what to do: did you mean "replicas"?
	Hint string `json:"hint,omitempty"`
}

// ObjectHealth is the health of one declared object.
type ObjectHealth struct {
	Object  string `json:"object"`
	Health  string `json:"health"`
	Message string `json:"message,omitempty"`
}

// CommitList is a list of Commit.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type CommitList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Commit `json:"items"`
}

// Inventory says what one file of a repository declared when it was last
// applied: where every object comes from. It is written in the same transaction
// as the objects, one Inventory for each file, so that a commit that changes
// one file of 50,000 rewrites one. The write guard and `writ why` read it.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type Inventory struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InventorySpec `json:"spec"`
}

// InventorySpec is the content of an Inventory.
type InventorySpec struct {
	Repository string `json:"repository"`
	// File is the path in the repository.
	File string `json:"file"`
	// Blob is the Git hash of what was rendered: of the file, or of all files
	// of a CUE package.
	Blob string `json:"blob"`
	// Commit is the last commit that changed the file, with its author.
	Commit  string            `json:"commit"`
	Author  string            `json:"author,omitempty"`
	Time    metav1.Time       `json:"time,omitempty"`
	Objects []InventoryObject `json:"objects"`
}

// InventoryObject is one object that a file declares.
type InventoryObject struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Line where the object begins, from 1.
	Line int `json:"line"`
	// File where the object begins, if it is not the Inventory's own (a CUE
	// package has several).
	File string `json:"file,omitempty"`
	// Hash of the rendered object, to see a change without showing it.
	Hash string `json:"hash"`
}

// InventoryList is a list of Inventory.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type InventoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Inventory `json:"items"`
}
