package page

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema"
)

// cardOf is the box of an object.
func cardOf(it *item, now time.Time) *card {
	c := &card{ID: cardID(it.resource, it.key), Icon: kindIcon(it.resource.Kind), Short: shortKind(it.resource.Kind), Kind: it.resource.Kind,
		Title: middle(it.key.Name, maxTitle), Full: it.key.Name, State: stateOf(it.health.Status), Health: string(it.health.Status), Href: hrefOf(it.resource, it.key), Sub: cut(it.health.Message, 200)}
	if it.object == nil {
		return c
	}
	c.Badge = badgeOf(it.object)
	if c.Sub == "" {
		if t := it.object.GetCreationTimestamp(); !t.IsZero() {
			c.Sub = momentOf(t.Time, now).Ago + " old"
		}
	}
	return c
}

func cardID(r *schema.Resource, key schema.Key) string {
	return strings.Join([]string{"card", cmp.Or(r.Group, "core"), r.Plural, key.Namespace, key.Name}, "/")
}

// badgeOf is the one number that matters of a kind.
func badgeOf(o schema.Object) string {
	ratio := func(a int32, b *int32) string {
		want := int32(1)
		if b != nil {
			want = *b
		}
		return strconv.Itoa(int(a)) + "/" + strconv.Itoa(int(want))
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		return ratio(o.Status.ReadyReplicas, o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return ratio(o.Status.ReadyReplicas, o.Spec.Replicas)
	case *appsv1.DaemonSet:
		return ratio(o.Status.NumberReady, &o.Status.DesiredNumberScheduled)
	case *appsv1.ReplicaSet:
		if rev := o.Annotations["deployment.kubernetes.io/revision"]; rev != "" {
			return "rev " + cut(rev, 8)
		}
	case *batchv1.CronJob:
		return cut(o.Spec.Schedule, 16)
	case *corev1.Pod:
		ready, all := readyContainers(o)
		return strconv.Itoa(ready) + "/" + strconv.Itoa(all)
	}
	return ""
}

func readyContainers(p *corev1.Pod) (ready, all int) {
	for _, s := range p.Status.ContainerStatuses {
		if s.Ready {
			ready++
		}
	}
	return ready, len(p.Spec.Containers)
}

// tree is how much of what an object owns is drawn.
type tree struct {
	now        time.Time
	children   func(*item) []item
	containers bool // draw the containers of pods
	fold       int  // more children of a kind than so many are one box
}

// build draws what an object owns below its box.
func (t *tree) build(it *item, depth int) *card {
	c := cardOf(it, t.now)
	if p, ok := it.object.(*corev1.Pod); ok && t.containers {
		c.kids = containerCards(p)
		return c
	}
	if depth >= maxChain {
		return c
	}
	kids := t.children(it)
	kids = slices.DeleteFunc(kids, func(k item) bool { return isSpent(k.object) })
	slices.SortStableFunc(kids, func(a, b item) int {
		return cmp.Or(cmp.Compare(severity(a.health.Status), severity(b.health.Status)), newerFirst(a.object, b.object), strings.Compare(a.key.Name, b.key.Name))
	})
	for i := range kids {
		if len(kids) > t.fold && i == t.fold-1 {
			c.kids = append(c.kids, foldedOf(c, kids[i:]))
			break
		}
		c.kids = append(c.kids, t.build(&kids[i], depth+1))
	}
	return c
}

// isSpent says that an object is kept for its history only.
func isSpent(o schema.Object) bool {
	rs, ok := o.(*appsv1.ReplicaSet)
	return ok && rs.Status.Replicas == 0 && rs.Spec.Replicas != nil && *rs.Spec.Replicas == 0
}

func severity(s health.Status) int {
	if i := slices.Index(healthStates, s); i >= 0 {
		return i
	}
	return len(healthStates)
}

func newerFirst(a, b schema.Object) int {
	return b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
}

// foldedOf stands for many objects.
func foldedOf(of *card, rest []item) *card {
	c := &card{ID: of.ID + "/rest", Icon: kindIcon(rest[0].resource.Kind), Short: shortKind(rest[0].resource.Kind), Kind: rest[0].resource.Kind}
	var states []string
	for i := range rest {
		it := &rest[i]
		s := stateOf(it.health.Status)
		states = append(states, s)
		if i < 3*maxSquares {
			c.Squares = append(c.Squares, square{Name: it.key.Name, State: s, Href: hrefOf(it.resource, it.key)})
		}
	}
	c.Title = plural(len(rest), "more "+rest[0].resource.Kind)
	c.State = worst(states...)
	return c
}

// containerCards are the boxes of the containers of a pod.
func containerCards(p *corev1.Pod) []*card {
	var out []*card
	add := func(list []corev1.Container, statuses []corev1.ContainerStatus, kind string, init bool) {
		for i := range list {
			ct := &list[i]
			c := &card{ID: "container/" + string(p.UID) + "/" + kind + "/" + ct.Name, Icon: "container", Short: kind, Kind: "Container", Title: middle(ct.Name, maxTitle), Full: ct.Name,
				Sub: cut(imageName(ct.Image), 120), State: stateWait, Health: "Waiting"}
			for j := range statuses {
				if statuses[j].Name == ct.Name {
					containerState(c, &statuses[j], init)
				}
			}
			out = append(out, c)
		}
	}
	add(p.Spec.InitContainers, p.Status.InitContainerStatuses, "init", true)
	add(p.Spec.Containers, p.Status.ContainerStatuses, "ctr", false)
	return out
}

func containerState(c *card, s *corev1.ContainerStatus, init bool) {
	if s.RestartCount > 0 {
		c.Badge = strconv.Itoa(int(s.RestartCount)) + "↻"
	}
	switch {
	case s.State.Running != nil && s.Ready:
		c.State, c.Health = stateOK, "Running"
	case s.State.Running != nil:
		c.State, c.Health = stateBusy, "Running, not ready"
	case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0:
		c.State, c.Health = stateOK, "Completed"
		if !init {
			c.State = stateIdle
		}
	case s.State.Terminated != nil:
		c.State, c.Health = stateBad, cmp.Or(s.State.Terminated.Reason, "Failed")
		c.Sub = c.Health + ", exit " + strconv.Itoa(int(s.State.Terminated.ExitCode))
	case s.State.Waiting != nil:
		c.Health = cmp.Or(s.State.Waiting.Reason, "Waiting")
		c.Sub = c.Health
		switch s.State.Waiting.Reason {
		case "", "ContainerCreating", "PodInitializing":
			c.State = stateBusy
		default:
			c.State = stateBad
		}
	}
}

// imageName is an image without the digits that nobody reads.
func imageName(image string) string {
	if name, digest, ok := strings.Cut(image, "@"); ok {
		return name + "@" + digest[:min(14, len(digest))]
	}
	return image
}

// maxRows is how tall the tree of a repository may be before what is healthy is
// folded.
const maxRows = 40

// repositoryTree are the files of a repository, what they declare, and what
// that owns; what asks for attention comes first. only is the one file to show;
// "" all.
func repositoryTree(name, only string, declared []item, t *tree) []*card {
	var files []*card
	byFile := map[string]*card{}
	for i := range declared {
		it := &declared[i]
		if it.origin.Repository != name || only != "" && it.origin.File != only {
			continue
		}
		f := byFile[it.origin.File]
		if f == nil {
			file := it.origin.File
			f = &card{ID: "file/" + file, Icon: "file", Short: "file", Kind: "File", Title: middle(base(file), maxTitle), Full: file, Sub: file,
				Badge: short(it.origin.Commit), Href: link("repositories/"+url.PathEscape(name), "file", file)}
			byFile[file] = f
			files = append(files, f)
		}
		f.kids = append(f.kids, t.build(it, 1))
	}
	for _, f := range files {
		f.State = stateOfTree(f)
	}
	slices.SortStableFunc(files, func(a, b *card) int { return cmp.Compare(stateRank(a.State), stateRank(b.State)) })
	if only != "" {
		return files
	}
	return foldFiles(name, files)
}

func base(file string) string { return file[strings.LastIndexByte(file, '/')+1:] }

func stateOfTree(c *card) string {
	states := []string{c.State}
	for _, k := range c.kids {
		states = append(states, stateOfTree(k))
	}
	return worst(states...)
}

// foldFiles makes a tree that is too tall shorter: the files in which all is
// well are closed first, the tallest before the others; then the others. What
// is left over is one box.
func foldFiles(repository string, files []*card) []*card {
	rows := leaves(files...)
	order := slices.Clone(files)
	slices.SortStableFunc(order, func(a, b *card) int { return cmp.Compare(leaves(b), leaves(a)) })
	for _, ok := range []bool{true, false} {
		for _, f := range order {
			if n := leaves(f); rows > maxRows && n > 1 && (f.State == stateOK) == ok {
				rows -= n - 1
				closeCard(f)
			}
		}
	}
	if len(files) <= maxRows {
		return files
	}
	rest := files[maxRows-1:]
	var states []string
	for _, f := range rest {
		states = append(states, f.State)
	}
	return append(files[:maxRows-1:maxRows-1], &card{ID: "file/rest", Icon: "file", Short: "files", Kind: "File",
		Title: plural(len(rest), "more file"), Sub: "in the list of objects", State: worst(states...), Href: link("objects", "repository", repository)})
}

func stateRank(s string) int {
	return slices.Index([]string{stateBad, stateWarn, stateBusy, stateWait, stateIdle, stateOK}, s)
}

// closeCard hides what is below a box and says how much it is.
func closeCard(c *card) {
	n := len(c.kids)
	for i, k := range c.kids {
		if i < 2*maxSquares {
			c.Squares = append(c.Squares, square{Name: k.Title, State: stateOfTree(k), Href: k.Href})
		}
	}
	c.Sub, c.kids = plural(n, "object"), nil
}
