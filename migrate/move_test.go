package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// move is a small kind of migration: it moves the data of a ConfigMap to another one, waits until somebody has marked
// that one as used, and deletes the first. It brings its own facts and steps, and nothing else.
var move = migrate.Engine[*movePlan]{
	Name: "move", Noun: "a move", Kind: "ConfigMap", Schema: "test.move-plan.v1",
	New: func() *movePlan { return &movePlan{} },
	Changes: func(was, now *movePlan) (changes []string) {
		if was.Subject != now.Subject || was.Target != now.Target || !maps.Equal(was.Data, now.Data) {
			changes = append(changes, fmt.Sprintf("the move was of %s with data %v to %s and is of %s with data %v to %s",
				was.Subject, was.Data, was.Target, now.Subject, now.Data, now.Target))
		}
		return changes
	},
}

const (
	createTarget migrate.StepName = "create-target"
	awaitUse     migrate.StepName = "await-use"
	deleteSource migrate.StepName = "delete-source"
	deleteTarget migrate.StepName = "delete-target" // of the rollback
)

const (
	usedAnnotation = "example.com/used"
	fromAnnotation = "example.com/moved-from"
)

type movePlan struct {
	migrate.Outline
	Target string            `json:"target"`
	Data   map[string]string `json:"data"`
}

func (p *movePlan) Validate() error { return migrate.ValidateName("target", p.Target) }

func (p *movePlan) ValidateNotes(notes map[string]string) error {
	for key := range notes {
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

func (p *movePlan) ListSteps() []migrate.Step {
	return []migrate.Step{
		{Name: createTarget, Does: p.Does(createTarget)}, {Name: awaitUse, Does: p.Does(awaitUse)}, {Name: deleteSource, Does: p.Does(deleteSource), NoReturn: true},
	}
}

func (p *movePlan) Does(step migrate.StepName) string {
	return map[migrate.StepName]string{
		createTarget: "create ConfigMap " + p.Target,
		awaitUse:     "wait until ConfigMap " + p.Target + " is used",
		deleteSource: "delete ConfigMap " + p.Subject.Name,
		deleteTarget: "delete ConfigMap " + p.Target,
	}[step]
}

func (p *movePlan) Arguments(string) string {
	return escape.Command(" %s %s -n %s", p.Subject.Name, p.Target, p.Subject.Namespace)
}

func (p *movePlan) Describe(lines *escape.Lines) {
	lines.Add("ConfigMap %s is moved to %s", p.Subject, p.Target)
}

func (p *movePlan) Text(colour findings.Palette) string { return migrate.Text(p, colour) }

func (p *movePlan) Observe(ctx context.Context, cluster migrate.Cluster, _ *migrate.Journal) (migrate.State, error) {
	return observeMove(ctx, cluster.Client, p)
}

// moveState is nil where there is no ConfigMap.
type moveState struct {
	plan           *movePlan
	source, target *corev1.ConfigMap
}

func observeMove(ctx context.Context, c client.Client, p *movePlan) (*moveState, error) {
	s := &moveState{plan: p}
	for name, to := range map[string]**corev1.ConfigMap{p.Subject.Name: &s.source, p.Target: &s.target} {
		found := &corev1.ConfigMap{}
		if exists, err := migrate.Find(ctx, c, found, p.Subject.Namespace, name); err != nil {
			return nil, err
		} else if exists {
			*to = found
		}
	}
	return s, nil
}

func (s *moveState) Verify() error {
	switch p := s.plan; {
	case s.source != nil && (s.source.UID != p.Subject.UID || !maps.Equal(s.source.Data, p.Data)):
		return errors.New("somebody has changed the source")
	case s.target != nil && s.target.Annotations[fromAnnotation] != string(p.Subject.UID):
		return errors.New("somebody else has created the target")
	case s.source == nil && s.target == nil:
		return errors.New("source and target are gone")
	}
	return nil
}

func (s *moveState) Next() (migrate.Decision, error) {
	switch {
	case s.target == nil:
		return migrate.Decision{Step: createTarget}, nil
	case s.target.Annotations[usedAnnotation] == "":
		return migrate.Decision{Step: awaitUse, Waits: "somebody to use it"}, nil
	case s.source != nil:
		return migrate.Decision{Step: deleteSource}, nil
	}
	return migrate.Decision{}, nil
}

func (s *moveState) Holds() (bool, error) {
	if s.target == nil {
		return false, errors.New("somebody has removed the target")
	}
	return s.source == nil && s.target.Annotations[fromAnnotation] == string(s.plan.Subject.UID), nil
}

func (s *moveState) Back() (migrate.Decision, error) {
	switch {
	case s.source == nil:
		return migrate.Decision{}, errors.New("the source is deleted: this is beyond the point of no return")
	case s.target != nil:
		return migrate.Decision{Step: deleteTarget}, nil
	}
	return migrate.Decision{}, nil
}

func (s *moveState) IsRestored() bool { return s.source != nil && s.target == nil }

func (s *moveState) Execute(ctx context.Context, c client.Client, step migrate.StepName) error {
	deleteUnchanged := func(object *corev1.ConfigMap) error {
		return c.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
	}
	p := s.plan
	switch step {
	case createTarget:
		return c.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Subject.Namespace, Name: p.Target, Annotations: map[string]string{fromAnnotation: string(p.Subject.UID)}},
			Data:       p.Data,
		})
	case deleteSource:
		return deleteUnchanged(s.source)
	case deleteTarget:
		return deleteUnchanged(s.target)
	}
	return fmt.Errorf("step %q writes nothing", step)
}

// moveRequest asks to move the data of a ConfigMap.
type moveRequest struct{ namespace, source, target string }

func (r moveRequest) String() string { return "ConfigMap " + r.namespace + "/" + r.source }

func (r moveRequest) Matches(p *movePlan) bool {
	return p.Subject.Namespace == r.namespace && p.Subject.Name == r.source
}

func (r moveRequest) Conflicts(p *movePlan) error {
	if r.target != p.Target {
		return fmt.Errorf("the plan has target %q, requested is %q", p.Target, r.target)
	}
	return nil
}

func (r moveRequest) Find(ctx context.Context, cluster migrate.Cluster) (*migrate.Subject, error) {
	for _, name := range []string{r.source, r.target} {
		found := &corev1.ConfigMap{}
		if exists, err := migrate.Find(ctx, cluster.Client, found, r.namespace, name); err != nil || exists {
			return &migrate.Subject{Namespace: r.namespace, Name: r.source}, err
		}
	}
	return nil, nil
}

func (r moveRequest) Plan(ctx context.Context, cluster migrate.Cluster) (*movePlan, error) {
	p := &movePlan{Outline: migrate.Outline{Subject: migrate.Subject{Namespace: r.namespace, Name: r.source}}, Target: r.target}
	s, err := observeMove(ctx, cluster.Client, p)
	if err != nil {
		return nil, err
	}
	if s.source == nil {
		return nil, fmt.Errorf("there is no %s", r)
	}
	if p.Subject.NamespaceUID, err = migrate.NamespaceUID(ctx, cluster.Client, r.namespace); err != nil {
		return nil, err
	}
	p.Subject.UID, p.Data = s.source.UID, s.source.Data
	check := findings.Check{Code: "target", Verdict: findings.OK, What: "the target does not exist yet"}
	if s.target != nil {
		check = findings.Check{Code: "target", Verdict: findings.Refused, What: "the target exists", Do: "delete it"}
	}
	p.Checks = migrate.Checks{check}
	p.Objects = []migrate.Object{
		{By: "berth", Kind: "ConfigMap", Namespace: r.namespace, Name: r.target, How: "created"},
		{By: "berth", Kind: "ConfigMap", Namespace: r.namespace, Name: r.source, How: "deleted"},
	}
	return p, nil
}
