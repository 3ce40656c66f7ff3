package csimigration

import (
	"errors"
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/migrate"
)

// Validate fails unless every field is one that a plan can have. The writes follow from the direction and the way.
func (p *Plan) Validate() error {
	var errs []error
	if p.Subject.Name != "cluster" {
		errs = append(errs, fmt.Errorf("subject.name is %q, want %q", p.Subject.Name, "cluster"))
	}
	if !slices.Contains([]Direction{Enable, Disable, Downgrade}, p.Direction) {
		errs = append(errs, fmt.Errorf("direction is %q, want one of %q", p.Direction, []Direction{Enable, Disable, Downgrade}))
	}
	version, err := semver.Parse(p.Version)
	if err != nil {
		errs = append(errs, fmt.Errorf("version is %q, want a version", p.Version))
	}
	if p.To != "" || p.Direction == Downgrade {
		if _, err := semver.Parse(p.To); err != nil {
			errs = append(errs, fmt.Errorf("to is %q, want a version", p.To))
		}
	}
	if p.Way != "" && !slices.Contains(Ways, p.Way) {
		errs = append(errs, fmt.Errorf("way is %q, want one of %q", p.Way, Ways))
	}
	if p.Way == OneSet && p.Direction != Enable || p.Way != TwoSets && p.Direction == Downgrade {
		errs = append(errs, fmt.Errorf("way is %q, which cannot %s", p.Way, p.Direction))
	}
	if found := p.drivers(); len(found) != len(p.Plugins) {
		errs = append(errs, fmt.Errorf("plugins are %q, want names of drivers with an in-tree plugin, each once", p.Plugins))
	}
	if !slices.IsSorted(p.Plugins) {
		errs = append(errs, fmt.Errorf("plugins are %q, want them sorted", p.Plugins))
	}
	if want := p.Way == Custom && !isPatched(version); p.PausesPools != want {
		errs = append(errs, fmt.Errorf("pausesPools is %t, want %t with way %q in version %s", p.PausesPools, want, p.Way, p.Version))
	}
	if p.Off != configv1.Default && p.Off != configv1.OKD {
		errs = append(errs, fmt.Errorf("off is %q, want %q or %q", p.Off, configv1.Default, configv1.OKD))
	}
	return errors.Join(append(errs, migrate.ValidateWord("before", string(p.Before)))...)
}

// ValidateNotes fails if the journal has notes.
func (p *Plan) ValidateNotes(notes map[string]string) error {
	for key := range notes {
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}
