package move

import (
	"context"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// OverviewSchema is the schema of an Overview in JSON.
const OverviewSchema = "berth.move-overview.v1"

// Overview is how far all moves are.
type Overview struct {
	// Schema is OverviewSchema.
	Schema string `json:"schema"`
	// Moves has the last move of each operator, sorted by package.
	Moves []*migrate.Status[*Plan] `json:"moves"`
}

// Observe returns how far all moves are.
func Observe(ctx context.Context, cluster migrate.Cluster) (*Overview, error) {
	all, err := Move.All(ctx, cluster)
	return &Overview{Schema: OverviewSchema, Moves: all}, err
}

// Text describes the overview for people.
func (o *Overview) Text(findings.Palette) string {
	var t escape.Lines
	if len(o.Moves) == 0 {
		t.Add("Nobody has moved an operator.")
	}
	for _, s := range o.Moves {
		p := s.Plan
		t.Add("%s in %s, %s, to %s: %s", p.Package, p.Namespace, p.Version.Name, p.To, s.Phase)
		switch {
		case s.Stuck != "":
			t.Add("  cannot continue: %s", s.Stuck)
		case s.Waits != "":
			t.Add("  step %s waits for %s", s.Next, s.Waits)
		case s.Next != "":
			t.Add("  the next step is %s", s.Next)
		}
	}
	return t.String()
}
