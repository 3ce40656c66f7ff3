package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/internal/findings"
)

// maxPlan is the maximum size of a plan in bytes. A ConfigMap holds at most 1 MiB.
const maxPlan = 768 << 10

// maxText is the maximum length, in bytes, of a text that is not the name of an object.
const maxText = 253

// Read reads a plan from JSON. Every field is validated, and unknown fields are refused.
func (e Engine[P]) Read(r io.Reader) (P, error) {
	p := e.New()
	source := fmt.Sprintf("as `berth %s plan -o json` writes it", e.Name)
	text, err := io.ReadAll(io.LimitReader(r, maxPlan+1))
	if err != nil {
		return p, err
	}
	if len(text) > maxPlan {
		return p, fmt.Errorf("not a plan, %s: it is larger than %d bytes", source, maxPlan)
	}
	if err := e.checkSchema(text, source); err != nil {
		return p, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil {
		return p, fmt.Errorf("not a plan, %s: %w", source, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return p, fmt.Errorf("not a plan, %s: data follows after its end", source)
	}
	if err := errors.Join(p.GetOutline().validate(e.ClusterScoped), p.Validate(), e.checkSteps(p)); err != nil {
		return p, fmt.Errorf("not a complete plan, %s: %w", source, err)
	}
	return p, nil
}

// checkSchema refuses plans of other versions before their fields are read.
func (e Engine[P]) checkSchema(text []byte, source string) error {
	var versioned struct {
		Schema string `json:"schema"`
	}
	if err := json.NewDecoder(strings.NewReader(string(text))).Decode(&versioned); err != nil {
		return fmt.Errorf("not a plan, %s: %w", source, err)
	}
	if versioned.Schema != e.Schema {
		return fmt.Errorf("schema is %q, want %q, %s: finish or roll back what another version of berth has begun with that version, or make a new plan",
			shortened(versioned.Schema), e.Schema, source)
	}
	return nil
}

// checkSteps fails unless the steps match the plan, and restores their descriptions.
func (e Engine[P]) checkSteps(p P) error {
	want := e.steps(p)
	if !slices.EqualFunc(p.GetOutline().Steps, want, func(a, b Step) bool { return a.Name == b.Name && a.NoReturn == b.NoReturn }) {
		return errors.New("steps do not match the rest of the plan")
	}
	p.GetOutline().Steps = want
	return nil
}

func (o *Outline) validate(clusterScoped bool) error {
	errs := []error{o.Subject.validate(clusterScoped)}
	for _, c := range o.Checks {
		if !slices.Contains([]findings.Verdict{findings.OK, findings.Warning, findings.Refused}, c.Verdict) {
			errs = append(errs, fmt.Errorf("the verdict of check %q is %q, want one of %q", c.Code, c.Verdict, []findings.Verdict{findings.OK, findings.Warning, findings.Refused}))
		}
	}
	if safe := o.Checks.Safe(); o.Safe != safe {
		errs = append(errs, fmt.Errorf("safe is %t, want %t according to the checks", o.Safe, safe))
	}
	return errors.Join(errs...)
}

func (s Subject) validate(clusterScoped bool) error {
	if clusterScoped {
		errs := []error{ValidateName("subject.name", s.Name), ValidateWord("subject.uid", string(s.UID))}
		if s.Namespace != "" || s.NamespaceUID != "" {
			errs = append(errs, fmt.Errorf("subject.namespace is %q, with UID %q; want none", shortened(s.Namespace), shortened(string(s.NamespaceUID))))
		}
		return errors.Join(errs...)
	}
	return errors.Join(
		ValidateNamespace("subject.namespace", s.Namespace), ValidateName("subject.name", s.Name),
		ValidateUID("subject.uid", s.UID), ValidateUID("subject.namespaceUID", s.NamespaceUID),
	)
}

// ValidateName fails unless a field holds the name of an object.
func ValidateName(field, name string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("%s is %q, want the name of an object", field, shortened(name))
	}
	return nil
}

// ValidateNamespace fails unless a field holds the name of a namespace.
func ValidateNamespace(field, name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("%s is %q, want the name of a namespace", field, shortened(name))
	}
	return nil
}

// ValidateUID fails unless a field holds a UID.
func ValidateUID(field string, uid types.UID) error {
	if uid == "" {
		return fmt.Errorf("%s is missing", field)
	}
	return ValidateWord(field, string(uid))
}

// ValidateWord fails unless a field is empty or holds a single word of printable characters.
func ValidateWord(field, text string) error {
	switch {
	case len(text) > maxText:
		return fmt.Errorf("%s has %d bytes, want at most %d", field, len(text), maxText)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }):
		return fmt.Errorf("%s is %q, want a single word", field, text)
	}
	return nil
}

func shortened(text string) string { return text[:min(len(text), maxText)] }
