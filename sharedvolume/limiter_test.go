package sharedvolume

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

// TestLimiterFollowsQueue binds a claim every 10 ms. From the latency, the limiter estimates how many wait for the binder.
func TestLimiterFollowsQueue(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name    string
		latency []time.Duration // each of them for a thousand claims
		waiting bool            // whether more wait for a slot
		want    int
	}{
		{"none wait", []time.Duration{10 * ms}, true, maxSlots},
		{"many wait", []time.Duration{10 * ms, 100 * ms}, true, minSlots},
		{"many wait, and did at the start", []time.Duration{50 * ms, 10 * ms, 50 * ms}, true, minSlots},
		{"many waited before", []time.Duration{10 * ms, 100 * ms, 10 * ms}, true, maxSlots},
		{"none wait for a slot", []time.Duration{10 * ms}, false, initialSlots},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, clock := limiter{limit: initialSlots}, now
			for _, latency := range test.latency {
				for range 1000 {
					clock = clock.Add(10 * ms)
					l.observe(clock, latency, test.waiting)
				}
			}
			assert.EqualValues(t, test.want, l.limit, "the limit")
		})
	}
}

// TestLimiter simulates a cluster where one namespace has a thousand claims to bind, and another has one now and then.
// With all latencies, the binder is rarely idle, and the other namespace's claims rarely wait for long.
func TestLimiter(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name    string
		cluster model
		// busy is the minimum share of the binder's busy time; others limits the time of the other namespace's claims as a
		// multiple of their time without the first.
		busy, others float64
	}{
		{"quick requests, a binder with a budget", model{making: 6 * ms, hearing: 2 * ms, binding: 6 * ms, budget: 20 * ms, noise: 0.3}, 0.95, 4},
		{"quick requests", model{making: 6 * ms, hearing: 2 * ms, binding: 6 * ms, noise: 0.3}, 0.95, 3},
		{"ordinary requests, a binder with a budget", model{making: 30 * ms, hearing: 3 * ms, binding: 24 * ms, budget: 20 * ms, noise: 0.5}, 0.85, 3},
		{"slow requests", model{making: 100 * ms, hearing: 5 * ms, binding: 20 * ms, noise: 0.5}, 0.8, 2},
		{"a crowded machine", model{making: 100 * ms, hearing: 40 * ms, binding: 50 * ms, noise: 0.8}, 0.8, 2.5},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, alone := test.cluster.run(0)
			took, among := test.cluster.run(1000)
			busy := float64(1000*max(test.cluster.binding, test.cluster.budget)) / float64(took)
			others := float64(among) / float64(alone)
			t.Logf("the binder was busy for %.2f of the time; the other namespace waited %.2f times as long as alone", busy, others)
			if busy < test.busy || others > test.others {
				t.Errorf("want %.2f at least and %.2f at most", test.busy, test.others)
			}
		})
	}
}

// model says how long it takes to create a claim, to receive an event, and to bind a claim. A binder with a budget may
// bind a hundred claims as fast as it can, and then one per budget. noise is the relative variation of times.
type model struct {
	making, hearing, binding, budget time.Duration
	noise                            float64
}

// run creates and binds n claims of one namespace, and one of another every second. It returns how long it takes until the n
// are bound, and how long one of the other namespace takes.
func (m model) run(n int) (took, other time.Duration) {
	s := &simulation{clock: now, random: rand.New(rand.NewPCG(1, 1)), model: m}
	s.records, s.requeued = recordsAt(&s.clock)
	bound := 0
	begin := func(key types.NamespacedName) {
		s.after(m.making, func() {
			s.records.startBinding(s.records.of(key))
			s.bind(func() {
				if bound++; bound == n {
					took = s.clock.Sub(now)
				}
			}, func() { s.records.release(s.records.of(key)) })
		})
	}
	for i := range n {
		if key := (types.NamespacedName{Namespace: "a", Name: fmt.Sprint(i)}); s.records.acquire(s.records.of(key)) {
			begin(key)
		}
	}
	var others []time.Duration
	var one func()
	one = func() {
		if bound == n && (n > 0 || len(others) > 30) {
			return
		}
		began := s.clock
		s.after(m.making, func() {
			s.bind(func() {}, func() {
				others = append(others, s.clock.Sub(began))
				s.at(s.clock.Add(time.Second), one)
			})
		})
	}
	s.at(now.Add(5*time.Second), one) // when the budget is used up
	s.run(begin)
	slices.Sort(others)
	return took, others[len(others)/2]
}

// simulation runs a model.
type simulation struct {
	model
	clock    time.Time
	random   *rand.Rand
	agenda   []scheduledCall
	records  *records
	requeued *[]string
	queue    []func() // the binder's
	allowed  time.Time
}

type scheduledCall struct {
	at time.Time
	do func()
}

func (s *simulation) at(at time.Time, do func()) { s.agenda = append(s.agenda, scheduledCall{at, do}) }

// after does something after about that time.
func (s *simulation) after(d time.Duration, do func()) {
	s.at(s.clock.Add(time.Duration(float64(d)*(1+s.noise*(s.random.ExpFloat64()-1)))), do)
}

// bind queues a claim for the binder. It calls bound when the claim is bound, and heard when the controller receives the event.
func (s *simulation) bind(bound, heard func()) {
	s.after(s.hearing, func() {
		s.queue = append(s.queue, func() {
			bound()
			s.after(s.hearing, heard)
		})
		if len(s.queue) == 1 {
			s.bindNext()
		}
	})
}

func (s *simulation) bindNext() {
	s.after(s.binding, func() {
		const atFirst = 100
		if earliest := s.clock.Add(-atFirst * s.budget); s.allowed.Before(earliest) {
			s.allowed = earliest
		}
		s.allowed = s.allowed.Add(s.budget)
		done := s.clock
		if s.allowed.After(done) {
			done = s.allowed
		}
		s.at(done, func() {
			s.queue[0]()
			if s.queue = s.queue[1:]; len(s.queue) > 0 {
				s.bindNext()
			}
		})
	})
}

// run runs all events in the order of their time. It calls begin for each SharedVolume that is requeued with a slot.
func (s *simulation) run(begin func(types.NamespacedName)) {
	for len(s.agenda) > 0 {
		next := 0
		for i, appointment := range s.agenda {
			if appointment.at.Before(s.agenda[next].at) {
				next = i
			}
		}
		due := s.agenda[next]
		s.agenda = slices.Delete(s.agenda, next, next+1)
		s.clock = due.at
		due.do()
		for _, name := range *s.requeued {
			begin(requestOf(name).NamespacedName)
		}
		*s.requeued = nil
	}
}
