package apiserver

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// writeQuery is the query of a create, update or patch.
type writeQuery struct {
	manager    string
	validation string // Strict, Warn or Ignore
	dryRun     bool
	force      *bool
}

// parseWriteQuery reads the query of a write. kind names the options in errors.
func parseWriteQuery(x *exchange, kind string, patch types.PatchType) (*writeQuery, error) {
	q := url.Values{}
	if x.r.URL.RawQuery != "" {
		q = x.r.URL.Query()
	}
	w := &writeQuery{manager: q.Get("fieldManager"), validation: q.Get("fieldValidation"), dryRun: len(q["dryRun"]) > 0}
	if v, ok := q["force"]; ok && patch != "" {
		b := isTrue(v)
		w.force = &b
	}
	var errs field.ErrorList
	if patch != "" {
		errs = metavalidation.ValidatePatchOptions(&metav1.PatchOptions{
			DryRun: q["dryRun"], Force: w.force, FieldManager: w.manager, FieldValidation: w.validation,
		}, patch)
	} else {
		errs = metavalidation.ValidateCreateOptions(&metav1.CreateOptions{
			DryRun: q["dryRun"], FieldManager: w.manager, FieldValidation: w.validation,
		})
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(kschema.GroupKind{Group: "meta.k8s.io", Kind: kind}, "", errs)
	}
	if w.validation == "" {
		w.validation = metav1.FieldValidationWarn
	}
	if w.manager == "" && patch != types.ApplyPatchType {
		w.manager = managerOf(x.r.UserAgent())
	}
	x.dryRun = w.dryRun
	return w, nil
}

// managerOf is the field manager of clients that name none: the first word of
// their User-Agent.
func managerOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) || b.Len()+len(string(r)) > metavalidation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (w *writeQuery) options(x *exchange, k schema.Key) client.WriteOptions {
	return client.WriteOptions{
		Subresource: x.route.Subresource, Key: k, FieldManager: w.manager, DryRun: w.dryRun,
		Force: w.force != nil && *w.force, FieldValidation: w.validation,
	}
}

// create answers a POST to a collection.
func (s *Server) create(x *exchange, r *schema.Resource) error {
	out, q, data, err := s.beginWrite(x, r, "CreateOptions")
	if err != nil {
		return err
	}
	o, err := decodeBody(x, r, data, q.validation)
	if err != nil {
		return err
	}
	if err := setNamespace(r, &x.route, o); err != nil {
		return err
	}
	x.event.Request(r, x.route.Subresource, o)
	made, err := s.cfg.Registry.Create(x.r.Context(), r, o, q.options(x, schema.Key{}))
	if err != nil {
		return err
	}
	s.writeResult(x, r, http.StatusCreated, out, made)
	return nil
}

// update answers a PUT to an object, or to its status.
func (s *Server) update(x *exchange, r *schema.Resource) error {
	out, q, data, err := s.beginWrite(x, r, "UpdateOptions")
	if err != nil {
		return err
	}
	o, err := decodeBody(x, r, data, q.validation)
	if err != nil {
		return err
	}
	if err := setNamespace(r, &x.route, o); err != nil {
		return err
	}
	switch {
	case o.GetName() == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", x.route.Name))
	case o.GetName() != x.route.Name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), x.route.Name))
	}
	x.event.Request(r, x.route.Subresource, o)
	done, err := s.cfg.Registry.Update(x.r.Context(), r, o, q.options(x, key(r, &x.route)))
	if err != nil {
		return err
	}
	s.writeResult(x, r, http.StatusOK, out, done)
	return nil
}

// beginWrite reads what every write with an object as its body begins with.
func (s *Server) beginWrite(x *exchange, r *schema.Resource, kind string) (output, *writeQuery, []byte, error) {
	out, err := negotiate(x.r, allowFor(r))
	if err != nil {
		return out, nil, nil, err
	}
	if _, err := bodyMedia(x.r); err != nil {
		return out, nil, nil, err
	}
	data, err := readBody(x)
	if err != nil {
		return out, nil, nil, err
	}
	q, err := parseWriteQuery(x, kind, "")
	return out, q, data, err
}

// setNamespace puts an object into the namespace of its path.
func setNamespace(r *schema.Resource, rt *route, o schema.Object) error {
	want := rt.Namespace
	if !r.Namespaced {
		want = ""
	}
	switch o.GetNamespace() {
	case want:
	case "":
		o.SetNamespace(want)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// patchTypes are the bodies that a PATCH may have.
var patchTypes = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType}

func patchType(r *http.Request, res *schema.Resource) (types.PatchType, error) {
	name, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var names []string
	for _, t := range patchTypes {
		if t == types.StrategicMergePatchType && !res.HasProtobuf() {
			continue // no patch strategies in the types of our own group
		}
		if err == nil && name == string(t) {
			return t, nil
		}
		names = append(names, string(t))
	}
	if res.HasProtobuf() { // upstream's router refuses it
		return "", apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", kschema.GroupResource{}, "", "415: Unsupported Media Type", 0, false)
	}
	return "", errUnsupportedMediaType(names)
}

// patch answers a PATCH of an object, or of a subresource that is the object.
func (s *Server) patch(x *exchange, r *schema.Resource) error {
	t, err := patchType(x.r, r)
	if err != nil {
		return err
	}
	out, err := negotiate(x.r, allowFor(r))
	if err != nil {
		return err
	}
	data, err := readBody(x)
	if err != nil {
		return err
	}
	q, err := parseWriteQuery(x, "PatchOptions", t)
	if err != nil {
		return err
	}
	if t == types.ApplyPatchType {
		if err := s.mayCreate(x, r); err != nil {
			return err
		}
	}
	x.event.Patch(data)
	o, created, err := s.cfg.Registry.PatchOrCreate(x.r.Context(), r, key(r, &x.route), t, data, q.options(x, key(r, &x.route)))
	if err != nil {
		return err
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	s.writeResult(x, r, code, out, o)
	return nil
}

// mayCreate asks for the permission to create when an apply is about to: the
// permission to patch is not enough.
func (s *Server) mayCreate(x *exchange, r *schema.Resource) error {
	if s.cfg.Store.Get(r, key(r, &x.route)) != nil {
		return nil
	}
	a := x.attributes()
	a.Verb = "create"
	return s.allowed(x, a)
}
