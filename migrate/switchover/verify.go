package switchover

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// renewalAnnotation is on a Subscription that a switch has made anew, with the nonce that its journal has.
const renewalAnnotation = "berth.dev/switch-renewal"

// verify fails unless the cluster shows what the plan is about: the namespace and the Subscription that it was made
// for, or the Subscription that this very switch has made, with nothing else changed than what the switch changes.
func (s *situation) verify() error {
	p := s.plan
	switch {
	case s.journal.open() && !s.journal.Plan.equal(p):
		return fmt.Errorf("another switch of Subscription %s has been begun: see how far that is with `%s`", p.Subscription, p.command("status"))
	case s.namespaceUID != p.Subscription.NamespaceUID:
		return fmt.Errorf("namespace %s has UID %q, want %q: it is gone, or another one of that name; %s",
			p.Subscription.Namespace, s.namespaceUID, p.Subscription.NamespaceUID, s.giveUp())
	case s.subscription == nil:
		return nil
	case !s.own():
		return s.another()
	}
	if now := choiceOf(s.subscription.Spec); now != p.From && now != p.To {
		return s.changed()
	}
	if !equality.Semantic.DeepEqual(s.subscription.Spec.Config, p.Subscription.Config) {
		return fmt.Errorf("somebody has changed Subscription %s: spec.config is not as the plan shows it; put that back, or %s", p.Subscription, s.instead())
	}
	installed, expected := s.subscription.Status.InstalledCSV, []string{"", p.Installed, p.Target}
	if !slices.Contains(expected, installed) {
		return fmt.Errorf("Subscription %s has %s installed, want %s or %s: somebody has updated it meanwhile; %s",
			p.Subscription, installed, orNothing(p.Installed), p.Target, s.giveUp())
	}
	return nil
}

// own tells whether the Subscription is the one that the plan was made for, or the one that this switch has made.
func (s *situation) own() bool {
	return s.subscription.UID == s.plan.Subscription.UID || s.renewed() && s.subscription.UID == s.renewal().uid || s.claimable()
}

// renewed tells whether this switch has made the Subscription anew, and has written down which that is.
func (s *situation) renewed() bool { return s.plan.Way == Replace && s.renewal().uid != "" }

// renewal is what the journal says of the Subscription that this switch has made.
func (s *situation) renewal() renewal {
	if s.journal == nil || !s.journal.Plan.equal(s.plan) {
		return renewal{} // it is of an earlier switch
	}
	return s.journal.renewal
}

// claimable tells whether the Subscription is the one that this switch has made and not yet written down. Whoever may
// write Subscriptions can read the nonce once it is there: so all else has to be as it was made, too.
func (s *situation) claimable() bool {
	r, made := s.renewal(), s.subscription
	return s.plan.Way == Replace && r.uid == "" && r.nonce != "" && made.Annotations[renewalAnnotation] == r.nonce &&
		equality.Semantic.DeepEqual(made.Spec, s.plan.renewedSpec())
}

// renewedSpec is what a Subscription is made with.
func (p *Plan) renewedSpec() *v1alpha1.SubscriptionSpec {
	spec := &v1alpha1.SubscriptionSpec{InstallPlanApproval: v1alpha1.ApprovalManual, Config: p.Subscription.Config}
	p.To.choose(spec)
	return spec
}

func (s *situation) changed() error {
	p := s.plan
	return fmt.Errorf("somebody has changed Subscription %s: it is to %s; want %s as before, or %s; put that back, or %s",
		p.Subscription, choiceOf(s.subscription.Spec), p.From, p.To, s.instead())
}

func (s *situation) another() error {
	p := s.plan
	if p.Way == Replace {
		return fmt.Errorf("Subscription %s is not the one that this switch was begun with, nor the one that it makes: its UID is %s, and somebody has made it anew meanwhile; "+
			"see who has, delete it, and go on with `%s`", p.Subscription, s.subscription.UID, p.command("apply"))
	}
	return fmt.Errorf("somebody has deleted Subscription %s and made it anew: its UID is %s, want %s; %s",
		p.Subscription, s.subscription.UID, p.Subscription.UID, s.giveUp())
}

// instead is what else can be done where somebody has changed something.
func (s *situation) instead() string {
	if s.journal.open() {
		return s.giveUp()
	}
	return "make a new plan"
}

// giveUp is how to begin anew.
func (s *situation) giveUp() string {
	if s.journal == nil {
		return "make a new plan"
	}
	return fmt.Sprintf("to give this switch up as it stands, `kubectl -n %s delete configmap %s`, and make a new plan", s.journal.stored.Namespace, s.journal.stored.Name)
}

func orNothing(name string) string {
	if name == "" {
		return "nothing"
	}
	return name
}

// command is what to call for the switch of a plan.
func (p *Plan) command(verb string) string {
	words := []string{"berth switch", verb, p.From.Package, "-n", p.Subscription.Namespace}
	if verb == "apply" {
		words = append(words, "--to", p.To.SourceNamespace+"/"+p.To.Source)
		if p.To.Channel != "" {
			words = append(words, "--channel", p.To.Channel)
		}
		if p.To.Package != p.From.Package {
			words = append(words, "--new-package", p.To.Package)
		}
		if p.createsDriver() {
			words = append(words, "--create-driver")
		}
	}
	return strings.Join(words, " ")
}

// differs says in which options a request asks for something else than a plan does.
func (r Request) differs(p *Plan) error {
	var faults []error
	differ := func(option, planned, asked string) {
		if planned != asked {
			faults = append(faults, fmt.Errorf("%s: the plan has %q, and %q is asked for", option, planned, asked))
		}
	}
	asked := r.choiceFrom(p.From)
	if r.NewPackage == "" {
		asked.Package = r.Package // which may be the new name
	}
	if r.Channel == "" && p.has(channelChanged) {
		asked.Channel = p.To.Channel
	}
	differ("--to", p.To.SourceNamespace+"/"+p.To.Source, asked.SourceNamespace+"/"+asked.Source)
	differ("--new-package", p.To.Package, asked.Package)
	differ("--channel", p.To.Channel, asked.Channel)
	differ("--create-driver", fmt.Sprint(p.createsDriver()), fmt.Sprint(r.CreateDriver))
	return errors.Join(faults...)
}

// has tells whether a check of a plan has a code.
func (p *Plan) has(code string) bool {
	return slices.ContainsFunc(p.Checks, func(c Check) bool { return c.Code == code })
}
