package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/schema"
)

// Trail is an audit log under a policy. All methods work on nil, which records
// nothing.
type Trail struct {
	rules audit.PolicyRuleEvaluator
	sink  audit.Backend
	out   io.Closer
}

// Run writes until ctx is done, and then what is left.
func (t *Trail) Run(ctx context.Context) error {
	if t == nil {
		return nil
	}
	// The library ends by the channel and flushes in Shutdown.
	if err := t.sink.Run(ctx.Done()); err != nil {
		return fmt.Errorf("run audit log: %w", err)
	}
	<-ctx.Done()
	t.sink.Shutdown()
	if err := t.out.Close(); err != nil {
		return fmt.Errorf("close audit log: %w", err)
	}
	return nil
}

// Event is the record of one request. All methods work on nil: a request that
// the policy does not record.
type Event struct {
	ctx     context.Context
	context *audit.AuditContext
	long    bool
	started bool
}

// errLost refuses a request that could not be recorded, with upstream's words.
var errLost = errors.New("failed to store audit event")

// Begin records that a request came. The request that it returns carries the
// event: admission adds annotations to it by k8s.io/apiserver/pkg/audit. long
// says that the answer is a stream, whose begin is recorded too. An error
// means that the request must be refused.
func (t *Trail) Begin(r *http.Request, id string, received time.Time, a authorizer.Attributes, long bool) (*http.Request, *Event, error) {
	if t == nil {
		return r, nil, nil
	}
	rule := t.rules.EvaluatePolicyRule(a)
	if rule.Level == auditinternal.LevelNone {
		return r, nil, nil
	}
	ctx := audit.WithAuditContext(r.Context())
	audit.WithAuditID(ctx, types.UID(id))
	ac := audit.AuditContextFrom(ctx)
	if err := ac.Init(rule, t.sink); err != nil {
		return r, nil, fmt.Errorf("failed to create audit event: %w", err)
	}
	r = r.WithContext(ctx)
	audit.LogRequestMetadata(ctx, withoutToken(r), received, a)
	if !ac.ProcessEventStage(ctx, auditinternal.StageRequestReceived) {
		return r, nil, errLost
	}
	return r, &Event{ctx: ctx, context: ac, long: long}, nil
}

// Refused records a request that was answered with a status code because its
// credentials were no good, or because it had none and needed some. As upstream
// it leaves one event, of the begin of the answer.
func (t *Trail) Refused(r *http.Request, id string, received time.Time, a authorizer.Attributes, code int) error {
	if t == nil {
		return nil
	}
	rule := t.rules.EvaluatePolicyRule(a)
	if rule.Level == auditinternal.LevelNone {
		return nil
	}
	ctx := audit.WithAuditContext(r.Context())
	audit.WithAuditID(ctx, types.UID(id))
	ac := audit.AuditContextFrom(ctx)
	if err := ac.Init(rule, t.sink); err != nil {
		return fmt.Errorf("failed to create audit event: %w", err)
	}
	audit.LogRequestMetadata(ctx, withoutToken(r.WithContext(ctx)), received, a)
	ac.SetEventResponseStatus(&metav1.Status{Message: attempted(r), Code: int32(code)}) //nolint:gosec // a status code
	ac.ProcessEventStage(ctx, auditinternal.StageResponseStarted)
	return nil
}

// withoutToken takes a token out of the address of a request: the log keeps the
// address.
func withoutToken(r *http.Request) *http.Request {
	if !strings.Contains(r.URL.RawQuery, "token") {
		return r
	}
	q := r.URL.Query()
	for name := range q {
		if strings.HasSuffix(strings.ToLower(name), "token") {
			q.Set(name, "redacted")
		}
	}
	u := *r.URL
	u.RawQuery = q.Encode()
	clean := *r
	clean.URL = &u
	return &clean
}

// attempted says which kinds of credentials a request had, in upstream's words.
func attempted(r *http.Request) string {
	var kinds []string
	if _, _, ok := r.BasicAuth(); ok {
		kinds = append(kinds, "basic")
	}
	if kind, _, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " "); ok && strings.EqualFold(kind, "bearer") {
		kinds = append(kinds, "bearer")
	}
	if strings.TrimSpace(r.URL.Query().Get("access_token")) != "" {
		kinds = append(kinds, "access_token")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		kinds = append(kinds, "x509")
	}
	if len(kinds) == 0 {
		return "Authentication failed, no credentials provided"
	}
	return "Authentication failed, attempted: " + strings.Join(kinds, ", ")
}

// Impersonated records as whom the user acts.
func (e *Event) Impersonated(u user.Info, constraint string) {
	if e != nil {
		e.context.LogImpersonatedUser(u, constraint)
	}
}

// codecs write bodies as they are, without conversion.
var codecs = schema.Codecs.WithoutConversion()

// Request records what a request sent, where the policy wants bodies.
func (e *Event) Request(r *schema.Resource, sub string, o runtime.Object) {
	if e != nil && o != nil {
		audit.LogRequestObject(e.ctx, o, o.GetObjectKind().GroupVersionKind().GroupVersion(), r.GVR(), sub, codecs)
	}
}

// Patch records the body of a patch, where the policy wants bodies.
func (e *Event) Patch(data []byte) {
	if e != nil {
		audit.LogRequestPatch(e.ctx, data)
	}
}

// Bodies says whether the policy wants the bodies of answers, which may be
// costly to make.
func (e *Event) Bodies() bool {
	return e != nil && !e.context.GetEventLevel().Less(auditinternal.LevelRequestResponse)
}

// Response records what an answer says. Of a *metav1.Status its code and
// message are recorded at every level.
func (e *Event) Response(o runtime.Object) {
	if e != nil && o != nil {
		gv := o.GetObjectKind().GroupVersionKind().GroupVersion()
		if gv.Empty() {
			gv = kschema.GroupVersion{Version: "v1"}
		}
		audit.LogResponseObject(e.ctx, o, gv, codecs)
	}
}

// Started records that the answer began with a status code.
func (e *Event) Started(code int) {
	if e == nil || e.started {
		return
	}
	e.started = true
	e.context.SetEventResponseStatusCode(int32(code)) //nolint:gosec // a status code
	if e.long {
		e.context.ProcessEventStage(e.ctx, auditinternal.StageResponseStarted)
	}
}

// End records that the answer is out, or, with the value of a panic, that there
// is none.
func (e *Event) End(panicked any) {
	if e == nil {
		return
	}
	if panicked != nil {
		e.context.SetEventResponseStatus(&metav1.Status{
			Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("APIServer panic'd: %v", panicked),
		})
		e.context.ProcessEventStage(e.ctx, auditinternal.StagePanic)
		return
	}
	if e.context.GetEventResponseStatus() == nil {
		e.context.SetEventResponseStatus(&metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"})
		if e.long {
			e.context.ProcessEventStage(e.ctx, auditinternal.StageResponseStarted)
		}
	}
	e.context.ProcessEventStage(e.ctx, auditinternal.StageResponseComplete)
}
