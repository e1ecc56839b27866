package apiserver

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
)

// maxBody is the largest body that is read, as upstream.
const maxBody = 3 << 20

// readBody reads the body of a request.
func readBody(x *exchange) ([]byte, error) {
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return nil, nil
	}
	if x.r.ContentLength > maxBody {
		return nil, errBodyTooLarge()
	}
	rc := http.NewResponseController(x.ResponseWriter)
	stuck := guarded(x.bodyWithin, func() { _ = rc.SetReadDeadline(time.Now()) })
	defer stuck.Stop()
	var data []byte
	var err error
	if n := x.r.ContentLength; n > 0 {
		data = make([]byte, n)
		_, err = io.ReadFull(x.r.Body, data)
	} else if data, err = io.ReadAll(io.LimitReader(x.r.Body, maxBody+1)); len(data) > maxBody {
		return nil, errBodyTooLarge()
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("read request body: %v", err))
	}
	return data, nil
}

func errBodyTooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
}

// decodeBody reads an object of a resource out of a body, in the encoding that
// the Content-Type names. validation is the fieldValidation of the request.
func decodeBody(x *exchange, r *schema.Resource, data []byte, validation string) (schema.Object, error) {
	m, err := bodyMedia(x.r)
	if err != nil {
		return nil, err
	}
	if m == mediaProtobuf && !r.HasProtobuf() {
		return nil, errUnsupportedMediaType(mediaNames[:2])
	}
	if r.Custom != nil {
		return decodeCustom(x, r, m, data, validation)
	}
	o, err := schema.Decode(r, schema.MediaType(m.String()), data, validation != metav1.FieldValidationIgnore)
	if err == nil {
		return o, nil
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok && o != nil && validation != metav1.FieldValidationStrict {
		addWarnings(x, strict.Errors())
		return o, nil
	}
	return nil, errDecode(r, m, data, err)
}

// addWarnings tells the client what of its object was dropped.
func addWarnings(x *exchange, errs []error) {
	for _, e := range errs {
		for _, text := range yamlProblems(e.Error()) {
			warning.AddWarning(x.r.Context(), "", text)
		}
	}
}

// yamlProblems splits the one error of a YAML decoder into its lines.
func yamlProblems(text string) []string {
	for _, prefix := range []string{
		"error converting YAML to JSON: yaml: unmarshal errors:\n",
		"yaml: unmarshal errors:\n",
	} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			lines := strings.Split(rest, "\n")
			for i := range lines {
				lines[i] = strings.TrimSpace(lines[i])
			}
			return lines
		}
	}
	return []string{text}
}

// errDecode words what is wrong with a body as upstream does.
func errDecode(r *schema.Resource, m media, data []byte, err error) error {
	tm := typeOf(m, data)
	if text := wrongType(r, tm, err); text != "" && r.Custom == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", tm.Kind, version(tm.APIVersion), r.Kind, text))
	}
	if strings.HasPrefix(err.Error(), "the API version in the data") {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", tm.APIVersion, r.APIVersion()))
	}
	cause := err
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "decode ") {
		cause = inner
	}
	if perr := notJSON(m, data); perr != nil {
		cause = perr
	}
	if m == mediaProtobuf && !bytes.HasPrefix(data, protobufPrefix) {
		cause = fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", protobufPrefix)
	}
	if tm.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", tm.Kind, version(tm.APIVersion), r.Kind, cause))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", r.Kind, cause, summarize(data)))
}

var protobufPrefix = []byte("k8s\x00")

// wrongType says, in upstream's words, why an object of another type does not
// become one of the resource's; "" where the type is not what is wrong.
func wrongType(r *schema.Resource, tm metav1.TypeMeta, err error) string {
	if !strings.HasPrefix(err.Error(), "the API version in the data") && !strings.HasPrefix(err.Error(), "the kind in the data") {
		return ""
	}
	gvk := kschema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind)
	if tm.APIVersion == "" {
		gvk = r.GVK().GroupVersion().WithKind(tm.Kind)
	}
	switch {
	case tm.Kind == "":
		return ""
	case !schema.Scheme.Recognizes(gvk):
		return unregistered(tm)
	case gvk.Kind != r.Kind:
		return fmt.Sprintf("converting (%s.%s) to (%s.%s): unknown conversion", gvk.Version, gvk.Kind, internalName(r.Group), r.Kind)
	}
	return ""
}

// unregistered is what upstream says of a type that it does not know.
func unregistered(tm metav1.TypeMeta) string {
	return fmt.Sprintf("no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"", tm.Kind, tm.APIVersion)
}

// typeOf reads apiVersion and kind, as far as they can be read.
func typeOf(m media, data []byte) (tm metav1.TypeMeta) {
	switch m {
	case mediaProtobuf:
		var u runtime.Unknown
		if len(data) > 4 && u.Unmarshal(data[4:]) == nil {
			tm.APIVersion, tm.Kind = u.APIVersion, u.Kind
		}
	case mediaYAML:
		_ = yaml.Unmarshal(data, &tm)
	default:
		_ = json.Unmarshal(data, &tm)
	}
	return tm
}

// notJSON is why not even the kind of an object can be read.
func notJSON(m media, data []byte) error {
	var tm struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if m != mediaJSON {
		return nil
	}
	if err := json.Unmarshal(data, &tm); err != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	return nil
}

func version(apiVersion string) string {
	_, v, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return apiVersion
	}
	return v
}

// summarize shows the beginning of a body that is no object.
func summarize(data []byte) string {
	const max = 30
	text := "<empty>"
	switch {
	case len(data) == 0:
	case data[0] == '{':
		text = string(data[:min(max, len(data))])
	default:
		text = hex.EncodeToString(data[:min(max, len(data))])
	}
	if len(data) > max {
		text += " ..."
	}
	return text
}
