package endurance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
)

// sample holds the programs' resource use during a part of the time.
type sample struct {
	// claims is how many came and went.
	claims int
	// memory is the resident memory at its end, in MiB, by container.
	memory map[string]float64
	// requests are the requests to the API server per claim, by program.
	requests map[string]float64
}

// table shows samples side by side.
func table(samples []sample) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(s sample) string) {
		fmt.Fprint(w, name+"\t")
		for _, s := range samples {
			fmt.Fprint(w, value(s)+"\t")
		}
		fmt.Fprintln(w)
	}
	row("claims that came and went", func(s sample) string { return fmt.Sprint(s.claims) })
	for _, name := range slices.Sorted(maps.Keys(samples[0].memory)) {
		row(name+", MiB", func(s sample) string { return fmt.Sprintf("%.0f", s.memory[name]) })
	}
	for _, name := range slices.Sorted(maps.Keys(samples[0].requests)) {
		row(name+", requests for each claim", func(s sample) string { return fmt.Sprintf("%.2f", s.requests[name]) })
	}
	w.Flush()
	return text.String()
}

// Tolerated growth: memory that the Go runtime keeps for the next garbage collection, and requests that come with time
// and not with claims, such as for leases.
const (
	memoryFactor, memoryMiB     = 1.25, 10
	requestsFactor, requestsMin = 1.25, 0.5
)

// growth returns the resources that grow from an earlier sample to a later one.
func growth(early, late sample) (grows []string) {
	for name, now := range late.memory {
		if limit := early.memory[name]*memoryFactor + memoryMiB; now > limit {
			grows = append(grows, fmt.Sprintf("%s has %.0f MiB and had %.0f: want at most %.0f", name, now, early.memory[name], limit))
		}
	}
	for name, now := range late.requests {
		if limit := early.requests[name]*requestsFactor + requestsMin; now > limit {
			grows = append(grows, fmt.Sprintf("%s sends %.2f requests for each claim and sent %.2f: want at most %.2f", name, now, early.requests[name], limit))
		}
	}
	return grows
}

func TestGrowth(t *testing.T) {
	flat := sample{claims: 10, memory: map[string]float64{"operator": 80}, requests: map[string]float64{"csi-provisioner": 5}}
	for name, last := range map[string]sample{
		"memory":   {memory: map[string]float64{"operator": 150}, requests: flat.requests},
		"requests": {memory: flat.memory, requests: map[string]float64{"csi-provisioner": 9}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Len(t, growth(flat, last), 1, "it finds")
		})
	}
	assert.Empty(t, growth(flat, flat), "it finds")
}
