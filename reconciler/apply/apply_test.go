package apply

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// server answers every transaction with an error.
type server struct{ err error }

func (s server) Transact(context.Context, []client.Op, bool) ([]schema.Object, error) {
	return nil, s.err
}

func one() *plan.Plan {
	r := schema.ResourceFor[*corev1.ConfigMap]()
	return &plan.Plan{
		Ops:         []plan.Op{{Action: plan.Create, Head: render.Head{Ref: render.Ref{Resource: r, Key: schema.Key{Namespace: "a", Name: "b"}}, File: "f.yaml", Line: 7, Column: 3}}},
		Inventories: []plan.InventoryOp{{Name: "i", Object: &v1alpha1.Inventory{}, ResourceVersion: "5"}},
	}
}

func TestErrors(t *testing.T) {
	gr := kschema.GroupResource{Resource: "configmaps"}
	invalid := apierrors.NewInvalid(kschema.GroupKind{Kind: "ConfigMap"}, "b", field.ErrorList{
		field.Required(field.NewPath("data"), "x"), field.Invalid(field.NewPath("metadata", "name"), "b", "y")})
	at := func(i int, err error) error { return &client.TransactionError{Errs: map[int]error{i: err}} }
	for name, tt := range map[string]struct {
		err      error
		conflict bool
		findings []string // rule and field
	}{
		"conflict of all":       {apierrors.NewConflict(gr, "b", errors.New("x")), true, nil},
		"conflict of one":       {at(0, apierrors.NewConflict(gr, "b", errors.New("x"))), true, nil},
		"inventory changed":     {at(1, apierrors.NewConflict(gr, "i", errors.New("x"))), true, nil},
		"inventory made":        {at(1, apierrors.NewAlreadyExists(gr, "i")), true, nil},
		"commit object gone":    {at(2, apierrors.NewNotFound(gr, "c")), true, nil},
		"refused":               {at(0, apierrors.NewForbidden(gr, "b", errors.New("quota"))), false, []string{"Forbidden "}},
		"invalid":               {at(0, invalid), false, []string{"Required data", "Invalid metadata.name"}},
		"server is busy":        {at(0, apierrors.NewTooManyRequests("x", 1)), false, nil},
		"too large":             {apierrors.NewRequestEntityTooLargeError("x"), false, []string{"TooLarge "}},
		"no server":             {errors.New("connection refused"), false, nil},
		"refused and temporary": {&client.TransactionError{Errs: map[int]error{0: apierrors.NewForbidden(gr, "b", errors.New("q")), 1: errors.New("x")}}, false, []string{"Forbidden "}},
	} {
		_, err := Do(context.Background(), server{tt.err}, one(), client.Op{})
		if errors.Is(err, ErrConflict) != tt.conflict || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		var refused *Refused
		if errors.As(err, &refused) != (len(tt.findings) > 0) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range tt.findings {
			f := refused.Findings[i]
			if f.Rule+" "+f.Field != want {
				t.Errorf("%s: finding %d is %+v, want %s", name, i, f, want)
			}
			if f.Rule != "TooLarge" && (f.File != "f.yaml" || f.Line != 7 || f.Object != "ConfigMap/a/b") {
				t.Errorf("%s: no place: %+v", name, f)
			}
		}
	}
}

func TestNothingToDo(t *testing.T) {
	if out, err := Do(context.Background(), server{errors.New("asked")}, &plan.Plan{}); err != nil || out != nil {
		t.Error(out, err)
	}
}
