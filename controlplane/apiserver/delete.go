package apiserver

import (
	"cmp"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// deleteOptions reads the options of a delete, which come in the body or, if
// that is empty, in the query.
func deleteOptions(x *exchange) (*metav1.DeleteOptions, error) {
	data, err := readBody(x)
	if err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if len(data) > 0 {
		err = decodeDeleteOptions(x, data, o)
	} else {
		err = queryDeleteOptions(x, o)
	}
	if err != nil {
		return nil, err
	}
	if errs := metavalidation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(kschema.GroupKind{Group: "meta.k8s.io", Kind: "DeleteOptions"}, "", errs)
	}
	x.dryRun = len(o.DryRun) > 0
	return o, nil
}

func decodeDeleteOptions(x *exchange, data []byte, o *metav1.DeleteOptions) error {
	m, err := bodyMedia(x.r)
	if err != nil {
		return err
	}
	if m == mediaProtobuf {
		err = o.Unmarshal(message(data))
	} else {
		err = yaml.Unmarshal(data, o) // JSON is YAML
	}
	if err == nil && o.Kind != "" && o.Kind != "DeleteOptions" {
		return apierrors.NewBadRequest(unregistered(metav1.TypeMeta{Kind: o.Kind, APIVersion: cmp.Or(o.APIVersion, "v1")}))
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

func queryDeleteOptions(x *exchange, o *metav1.DeleteOptions) error {
	q := x.r.URL.Query()
	o.DryRun = q["dryRun"]
	if v := q.Get("gracePeriodSeconds"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		o.GracePeriodSeconds = &n
	}
	if v := q.Get("propagationPolicy"); v != "" {
		p := metav1.DeletionPropagation(v)
		o.PropagationPolicy = &p
	}
	if v, ok := q["ignoreStoreReadErrorWithClusterBreakingPotential"]; ok {
		b := isTrue(v)
		o.IgnoreStoreReadErrorWithClusterBreakingPotential = &b
	}
	if v, ok := q["orphanDependents"]; ok {
		b := isTrue(v)
		o.OrphanDependents = &b
	}
	return nil
}

// clientDelete turns the options into those of the registry.
func clientDelete(o *metav1.DeleteOptions) client.DeleteOptions {
	d := client.DeleteOptions{GracePeriodSeconds: o.GracePeriodSeconds, Preconditions: o.Preconditions, DryRun: len(o.DryRun) > 0}
	switch {
	case o.PropagationPolicy != nil:
		d.Propagation = *o.PropagationPolicy
	case o.OrphanDependents != nil && *o.OrphanDependents:
		d.Propagation = metav1.DeletePropagationOrphan
	case o.OrphanDependents != nil:
		d.Propagation = metav1.DeletePropagationBackground
	}
	return d
}

// returnsObject are the kinds whose deletion is answered with the last state,
// as upstream; others get a Status.
var returnsObject = map[string]bool{
	"pods": true, "services": true, "serviceaccounts": true, "resourcequotas": true,
	"persistentvolumes": true, "persistentvolumeclaims": true, "podtemplates": true,
	"storageclasses.storage.k8s.io": true, "csidrivers.storage.k8s.io": true, "csinodes.storage.k8s.io": true,
	"volumeattachments.storage.k8s.io": true, "volumeattributesclasses.storage.k8s.io": true,
	"resourceclaims.resource.k8s.io": true, "resourceclaimtemplates.resource.k8s.io": true,
	"resourceslices.resource.k8s.io": true, "deviceclasses.resource.k8s.io": true, "devicetaintrules.resource.k8s.io": true,
}

// delete answers a DELETE of one object.
func (s *Server) delete(x *exchange, r *schema.Resource) error {
	out, err := negotiate(x.r, allowFor(r))
	if err != nil {
		return err
	}
	opts, err := deleteOptions(x)
	if err != nil {
		return err
	}
	o, gone, err := s.cfg.Registry.DeleteObject(x.r.Context(), r, key(r, &x.route), clientDelete(opts))
	if err != nil {
		return err
	}
	code := http.StatusOK
	if !gone && opts.OrphanDependents != nil && !*opts.OrphanDependents {
		code = http.StatusAccepted
	}
	if gone && !returnsObject[r.String()] {
		out, err = negotiate(x.r, allowPlain)
		if err != nil {
			out = output{}
		}
		writeObject(x, x.r, code, out, deletedStatus(r, o))
		return nil
	}
	s.writeResult(x, r, code, out, o)
	return nil
}

func deletedStatus(r *schema.Resource, o schema.Object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details:  &metav1.StatusDetails{Name: o.GetName(), Group: r.Group, Kind: r.Plural, UID: o.GetUID()},
	}
}

// deleteCollection answers a DELETE of a collection with the list of what was
// deleted.
func (s *Server) deleteCollection(x *exchange, r *schema.Resource) error {
	out, err := negotiate(x.r, allowFor(r))
	if err != nil {
		return err
	}
	in, err := decodeListOptions(x.r.URL.Query())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	opts, err := deleteOptions(x)
	if err != nil {
		return err
	}
	p, err := s.selected(x, r, in)
	if err != nil {
		return err
	}
	if err := s.cfg.Registry.DeleteAll(x.r.Context(), r, p.items, clientDelete(opts)); err != nil {
		return err
	}
	if p.items, err = x.now.views.of(r).all(x.r.Context(), p.items); err != nil {
		return err
	}
	return s.writeList(x, r, out, p)
}

// selected are the objects that LIST shows now for the same selectors: what is
// deleted is what was seen.
func (s *Server) selected(x *exchange, r *schema.Resource, in *internalversion.ListOptions) (*listPage, error) {
	f, err := newFilter(r, &x.route, in)
	if err != nil {
		return nil, err
	}
	f.show = x.now.views.of(r).show(x.r.Context())
	if err := s.asked(x.r.Context(), true, 0); err != nil {
		return nil, err
	}
	o := &listOptions{filter: f}
	p := s.cut(r, page{snapshot: s.cfg.Store.Snapshot(r)}, schema.Key{}, o)
	return p, o.filter.err
}
