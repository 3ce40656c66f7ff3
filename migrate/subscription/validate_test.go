package subscription

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// valid is a plan that can be applied.
func valid(strategy Strategy) *Plan {
	p := &Plan{
		Outline: migrate.Outline{Schema: Switch.Schema, Safe: true,
			Subject: migrate.Subject{Namespace: "harbour", Name: "buoy", UID: "s-1", NamespaceUID: "n-1"}},
		Generation: 1,
		From:       Choice{Source: "first", SourceNamespace: "harbour", Package: "buoy", Channel: "stable"},
		To:         Choice{Source: "second", SourceNamespace: "harbour", Package: "buoy", Channel: "stable"},
		Installed:  "buoy.v1.0.0", Target: "buoy.v1.1.0", Strategy: strategy,
	}
	outcome := &prediction.Prediction{Subscription: "buoy", Reaction: prediction.Updates, Next: &prediction.Update{Name: p.Target}}
	switch strategy {
	case Replace:
		p.To.Package = "beacon"
	case Keep:
		p.Target, outcome = p.Installed, &prediction.Prediction{Subscription: "buoy", Reaction: prediction.Latest}
	}
	if strategy != Keep {
		p.Contents = []Content{{Name: p.Target, SourceNamespace: "harbour", Source: "second"}}
	}
	p.Outcomes = []*prediction.Prediction{outcome}
	p.Steps = slices.Concat([]migrate.Step{{Name: migrate.RecordPlan, Does: Switch.Does(p, migrate.RecordPlan)}}, p.ListSteps(),
		[]migrate.Step{{Name: migrate.Complete, Does: Switch.Does(p, migrate.Complete)}})
	return p
}

func text(t testing.TB, p *Plan) string {
	t.Helper()
	written, err := json.MarshalIndent(p, "", "  ")
	require.NoError(t, err)
	return string(written)
}

const journalName = "berth-switch.harbour.buoy" // of a valid plan

// stored is the ConfigMap of a journal.
func stored(name, plan, phase, log, nonce, uid string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: migrate.DefaultJournalNamespace, Name: name},
		Data: map[string]string{"plan.json": plan, "phase": phase, "log": log, nonceKey: nonce, uidKey: uid}}
}

// Each plan has one invalid field, which the error names.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		strategy Strategy
		change   func(*Plan)
		want     string // of the error
	}{
		"an update":                           {Update, func(*Plan) {}, ""},
		"a replacement":                       {Replace, func(*Plan) {}, ""},
		"nothing to install":                  {Keep, func(*Plan) {}, ""},
		"no namespace":                        {Update, func(p *Plan) { p.Subject.Namespace = "" }, "subject.namespace"},
		"a path as namespace":                 {Update, func(p *Plan) { p.Subject.Namespace = "../kube-system" }, "subject.namespace"},
		"no name":                             {Update, func(p *Plan) { p.Subject.Name = "" }, "subject.name"},
		"no UID":                              {Update, func(p *Plan) { p.Subject.UID = "" }, "subject.uid"},
		"no UID of the namespace":             {Update, func(p *Plan) { p.Subject.NamespaceUID = "" }, "subject.namespaceUID"},
		"no generation":                       {Update, func(p *Plan) { p.Generation = 0 }, "generation is"},
		"an unknown approval":                 {Update, func(p *Plan) { p.Approval = "Never" }, "approval is"},
		"no package before":                   {Update, func(p *Plan) { p.From.Package = "" }, "from.package"},
		"lines in a channel":                  {Update, func(p *Plan) { p.To.Channel = "stable\nsafe" }, "to.channel"},
		"no source":                           {Update, func(p *Plan) { p.To.Source = "" }, "to.source"},
		"a package with a long name":          {Update, func(p *Plan) { p.To.Package = strings.Repeat("x", 254) }, "to.package"},
		"an unknown strategy":                 {Update, func(p *Plan) { p.Strategy = "leap" }, "strategy is"},
		"no target":                           {Update, func(p *Plan) { p.Target = "" }, "target is missing"},
		"a target that is installed":          {Update, func(p *Plan) { p.Target = p.Installed }, "target is the installed version"},
		"a replacement of nothing":            {Replace, func(p *Plan) { p.Installed = "" }, "installed is missing"},
		"a replacement with the same name":    {Replace, func(p *Plan) { p.To.Package = p.From.Package }, "from.package is to.package"},
		"the target twice":                    {Update, func(p *Plan) { p.Additional = []string{p.Target} }, "additional has the target"},
		"no content":                          {Update, func(p *Plan) { p.Contents = nil }, "contents are for"},
		"a content from another catalog":      {Update, func(p *Plan) { p.Contents[0].Source = "third" }, "contents has buoy.v1.1.0 from harbour/third"},
		"another package's driver":            {Update, func(p *Plan) { p.Driver = &Driver{Name: "efs.csi.aws.com"} }, "driver is"},
		"an unknown verdict":                  {Update, func(p *Plan) { p.Checks = migrate.Checks{{Code: "x", Verdict: "fine"}} }, "verdict of check"},
		"safe although a check is refused":    {Update, func(p *Plan) { p.Checks = migrate.Checks{{Code: "x", Verdict: findings.Refused}} }, "safe is true"},
		"unsafe although no check is refused": {Update, func(p *Plan) { p.Safe = false }, "safe is false"},
		"steps of another strategy":           {Update, func(p *Plan) { p.Steps = valid(Replace).Steps }, "steps do not match"},
		"no outcomes":                         {Update, func(p *Plan) { p.Outcomes = nil }, "outcomes has none"},
		"an outcome that is null":             {Update, func(p *Plan) { p.Outcomes = append(p.Outcomes, nil) }, "one of outcomes is null"},
		"an outcome of another":               {Update, func(p *Plan) { p.Outcomes[0].Subscription = "other" }, "outcomes has none"},
		"an update to nothing":                {Update, func(p *Plan) { p.Outcomes[0].Next = nil }, "next: false"},
		"an outcome with another target":      {Update, func(p *Plan) { p.Outcomes[0].Next.Name = "other.v1" }, "is not the target"},
		"a plan of another version":           {Update, func(p *Plan) { p.Schema = "berth.switch-plan.v4" }, `schema is "berth.switch-plan.v4", want "berth.switch-plan.v5"`},
		"more bytes than a plan can have":     {Update, func(p *Plan) { p.Outcomes[0].Message = strings.Repeat("x", 768<<10) }, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid(test.strategy)
			test.change(p)
			written, err := json.Marshal(p)
			require.NoError(t, err)
			_, err = Switch.Read(strings.NewReader(string(written)))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestReadRestoresDescriptions(t *testing.T) {
	p := valid(Update)
	p.Steps[0].Does = "all is well"
	read, err := Switch.Read(strings.NewReader(text(t, p)))
	if err != nil || read.Steps[0].Does == "all is well" {
		t.Errorf("got %v, %+v; want the descriptions of the steps restored", err, read)
	}
	_, err = Switch.Read(strings.NewReader(text(t, valid(Update)) + "{}"))
	assert.ErrorContains(t, err, "data follows")
}

func TestParseJournal(t *testing.T) {
	p := valid(Replace)
	name, written, nonce := journalName, text(t, p), strings.Repeat("0", nonceLength)
	const log = "2026-11-21T20:53:58Z record-plan\n"
	unsafe := valid(Update)
	unsafe.Safe, unsafe.Steps, unsafe.Checks = false, nil, migrate.Checks{{Verdict: findings.Refused}}
	withMetadata := func(note string) *corev1.ConfigMap {
		s := stored(name, written, "Applying", log, nonce, "s-2")
		s.Data[metadataKey] = note
		return s
	}
	for what, test := range map[string]struct {
		stored *corev1.ConfigMap
		want   string
	}{
		"a journal":             {stored(name, written, "Applying", log, nonce, "s-2"), ""},
		"garbage":               {stored(name, "garbage", "Applying", log, "", ""), `data["plan.json"]`},
		"the name of another":   {stored("berth-switch.harbour.other", written, "Applying", log, "", ""), "metadata.name"},
		"an unknown phase":      {stored(name, written, "Applied", log, "", ""), `data["phase"]`},
		"an unknown step":       {stored(name, written, "Applying", "2026-11-21T20:53:58Z leap\n", "", ""), `data["log"]`},
		"no time":               {stored(name, written, "Applying", "record-plan\n", "", ""), `data["log"]`},
		"a long log":            {stored(name, written, "Applying", strings.Repeat(log, 501), "", ""), `data["log"]`},
		"an invalid nonce":      {stored(name, written, "Applying", log, "any", ""), nonceKey},
		"a UID without a nonce": {stored(name, written, "Applying", log, "", "s-2"), uidKey},
		"kept labels":           {withMetadata(`{"labels":{"a":"b"},"annotations":{"example.com/a":"any thing"}}`), ""},
		"metadata in disorder":  {withMetadata(`{"labels":`), metadataKey},
		"two values":            {withMetadata(`{}{}`), metadataKey},
		"other metadata":        {withMetadata(`{"finalizers":["a"]}`), metadataKey},
		"an invalid label":      {withMetadata(`{"labels":{"a":"any thing"}}`), metadataKey},
		"an invalid annotation": {withMetadata(`{"annotations":{"any thing":"a"}}`), metadataKey},
		"a label of OLM's":      {withMetadata(`{"labels":{"operators.coreos.com/buoy.harbour":""}}`), metadataKey},
		"another nonce":         {withMetadata(`{"annotations":{"` + nonceAnnotation + `":"a"}}`), metadataKey},
		"too much metadata":     {withMetadata(`{"annotations":{"a":"` + strings.Repeat("x", maxMetadata) + `"}}`), "at most"},
		"an unsafe plan":        {stored(name, text(t, unsafe), "Applying", log, "", ""), "such a plan is never applied"},
		"another key": {func() *corev1.ConfigMap {
			s := stored(name, written, "Applying", log, "", "")
			s.Data["more"] = "x"
			return s
		}(), `unknown key "more"`},
		"binary data": {func() *corev1.ConfigMap {
			s := stored(name, written, "Applying", log, "", "")
			s.BinaryData = map[string][]byte{"plan.jsonx": {0}}
			return s
		}(), `key "plan.jsonx"`},
	} {
		t.Run(what, func(t *testing.T) {
			j, err := Switch.ParseJournal(test.stored)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "ConfigMap kube-system/"+test.stored.Name) || !strings.Contains(err.Error(), "delete it") {
					t.Errorf("got %v, want %q, where, and what to do", err, test.want)
				}
			} else if err != nil || !j.IsOpen() || j.Entries[0].Step != migrate.RecordPlan || (&state{journal: j}).recreation() != (recreation{nonce, "s-2"}) {
				t.Errorf("got %+v, %v", j, err)
			}
		})
	}
}

// TestRequestConflicts: a request matches the plan, or names the options that differ.
func TestRequestConflicts(t *testing.T) {
	requested := Request{Package: "buoy", Source: "second"}
	for name, test := range map[string]struct {
		strategy Strategy
		change   func(*Request, *Plan)
		want     string
	}{
		"the same":            {Update, func(*Request, *Plan) {}, ""},
		"all options":         {Update, func(r *Request, _ *Plan) { r.SourceNamespace, r.Channel, r.NewPackage = "harbour", "stable", "buoy" }, ""},
		"another catalog":     {Update, func(r *Request, _ *Plan) { r.Source = "third" }, "--to"},
		"another namespace":   {Update, func(r *Request, _ *Plan) { r.SourceNamespace = "elsewhere" }, "--to"},
		"another channel":     {Update, func(r *Request, _ *Plan) { r.Channel = "fast" }, "--channel"},
		"a channel not named": {Update, func(_ *Request, p *Plan) { p.To.Channel = "fast" }, "--channel"},
		"the default channel": {Update, func(_ *Request, p *Plan) {
			p.To.Channel, p.Checks = "fast", migrate.Checks{{Code: channelChanged, Verdict: findings.Warning}}
		}, ""},
		"a package not named": {Replace, func(*Request, *Plan) {}, "--new-package"},
		"a package named":     {Replace, func(r *Request, _ *Plan) { r.NewPackage = "beacon" }, ""},
		"by the new name":     {Replace, func(r *Request, _ *Plan) { r.Package = "beacon" }, ""},
		"the driver besides":  {Update, func(r *Request, _ *Plan) { r.CreateDriver = true }, "--create-driver"},
		"the driver omitted":  {Update, func(_ *Request, p *Plan) { p.Driver = &Driver{Create: true} }, "--create-driver"},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := requested, valid(test.strategy)
			test.change(&r, p)
			err := r.Conflicts(p)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestRandomJournals: any readable journal is shown and decided about without a panic, whatever the cluster shows.
// Fuzzing would first compile all of Kubernetes once more, for its coverage.
func TestRandomJournals(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	mostly := func(usual string, others ...string) string { // or few would read as a journal
		if random.IntN(10) > 0 {
			return usual
		}
		return one(others...)
	}
	read := 0
	for range 10000 {
		plan := mutated(random, one(text(t, valid(Update)), text(t, valid(Replace)), text(t, valid(Keep))))
		if random.IntN(20) == 0 { // not even JSON
			plan = plan[:random.IntN(len(plan))]
		}
		log := mostly(one("2026-11-21T20:53:58Z record-plan\n", "2026-11-21T20:53:58Z await-resolver\n"), "", "\n\n", "Z x", "\x1b[31m\xff\n", strings.Repeat("x", 5000))
		j, err := Switch.ParseJournal(stored(mostly(journalName, "x", ""), plan, mostly(one("Applying", "RollingBack"), "Failed", "", "\x00"), log,
			mostly(strings.Repeat("0", nonceLength), "", "0"), mostly("s-2", "", "\x1b")))
		if err != nil {
			continue
		}
		read++
		p := j.Plan.(*Plan)
		again, err := Switch.Read(strings.NewReader(text(t, p)))
		if err != nil || text(t, again) != text(t, p) {
			t.Fatalf("it reads as another plan when it is written again: %v\n%s", err, plan)
		}
		_ = p.Text(findings.Plain)
		_ = (&migrate.Status[*Plan]{Phase: j.Phase, Plan: p, Log: []string{log}}).Text(findings.Colours)
		_ = j.Command(p, "apply")
		_ = Request{Package: p.From.Package}.Conflicts(p)
		for _, s := range states(j) {
			_ = s.IsRestored()
			if s.Verify() == nil {
				_, _ = s.Next()
				_, _ = s.Back()
			}
		}
	}
	assert.GreaterOrEqual(t, read, 100, "how many of 10000 were read, without which this shows nothing")
	_, _ = Switch.ParseJournal(stored("x", `{"schema":"berth.switch-plan.v5","outcomes":[null]}`, "Applying", "", "", "")) // an outcome that is null
}

var jsonValue = regexp.MustCompile(`"[^"]*"(: )?|true|false|[0-9]+`)

// mutated changes a few values of JSON.
func mutated(random *rand.Rand, document string) string {
	values := []string{`""`, `"x"`, `null`, `0`, `-1`, `true`, `[]`, `{}`, `[null]`, `"\u001b[31m"`, `"a b;c"`, `"../x"`}
	for range 1 + random.IntN(3) {
		var places [][]int
		for _, place := range jsonValue.FindAllStringIndex(document, -1) {
			if !strings.HasSuffix(document[place[0]:place[1]], ": ") {
				places = append(places, place)
			}
		}
		at := places[random.IntN(len(places))]
		with := values[random.IntN(len(values))]
		if random.IntN(2) == 0 { // another value of the same document
			other := places[random.IntN(len(places))]
			with = document[other[0]:other[1]]
		}
		document = document[:at[0]] + with + document[at[1]:]
	}
	return document
}

// TestArguments: options of the command line are options, and a name from the plan never is one.
func TestArguments(t *testing.T) {
	p := valid(Replace)
	for _, tc := range []struct{ pkg, verb, want string }{
		{"buoy", "rollback", " buoy -n harbour"},
		{"buoy", "apply", " buoy -n harbour --to harbour/second --channel stable --new-package beacon"},
		{"--to=elsewhere; touch x", "rollback", " '<NAME>' -n harbour"},
		{"buoy; touch x", "rollback", " 'buoy; touch x' -n harbour"},
	} {
		p.From.Package = tc.pkg
		assert.EqualValuesf(t, tc.want, p.Arguments(tc.verb), "%s, %s", tc.pkg, tc.verb)
	}
}

// states are some that a cluster may show.
func states(j *migrate.Journal) []*state {
	p := j.Plan.(*Plan)
	csv := func(name string) v1alpha1.ClusterServiceVersion {
		return v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	installPlan := &v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{ClusterServiceVersionNames: []string{p.Target}},
		Status: v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseRequiresApproval, Plan: []*v1alpha1.Step{nil, {Resolving: p.Target}},
			BundleLookups: []v1alpha1.BundleLookup{{Identifier: p.Target}}}}
	all := []*state{{plan: p, journal: j}}
	for _, choice := range []Choice{p.From, p.To} {
		for _, installed := range []string{"", p.Installed, p.Target} {
			subscription := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{UID: p.Subject.UID}, Spec: &v1alpha1.SubscriptionSpec{Config: p.Config}}
			choice.applyTo(subscription.Spec)
			subscription.Status.InstalledCSV = installed
			s := &state{plan: p, journal: j, subscription: subscription, csvs: []v1alpha1.ClusterServiceVersion{csv(installed)},
				current: installPlan, installPlans: []*v1alpha1.InstallPlan{installPlan}}
			manual := *s
			manual.subscription = subscription.DeepCopy()
			manual.subscription.Spec.InstallPlanApproval = v1alpha1.ApprovalManual
			all = append(all, s, &manual)
		}
	}
	return all
}

// An InstallPlan matches the plan, or differs.
func TestMatches(t *testing.T) {
	p := valid(Update)
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: p.Target}}
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyNameDeployment
	csv.Spec.Replaces = p.Installed
	digest, err := digestOf(csv, [][]byte{[]byte(`{"kind":"Service"}`)})
	require.NoError(t, err)
	manifest, err := json.Marshal(csv)
	require.NoError(t, err)
	other := csv.DeepCopy()
	other.Spec.DisplayName = "other"
	otherManifest, err := json.Marshal(other)
	require.NoError(t, err)
	step := func(kind, source, manifest string) *v1alpha1.Step {
		return &v1alpha1.Step{Resolving: p.Target, Resource: v1alpha1.StepResource{Kind: kind, Name: p.Target, CatalogSource: source, CatalogSourceNamespace: "harbour", Manifest: manifest}}
	}
	lookup := func(source, path string) []v1alpha1.BundleLookup {
		return []v1alpha1.BundleLookup{{Identifier: p.Target, Path: path, CatalogSourceRef: &corev1.ObjectReference{Namespace: "harbour", Name: source}}}
	}
	service := step("Service", "second", `{ "kind": "Service" }`)
	carried, image := Content{Name: p.Target, SourceNamespace: "harbour", Source: "second", Digest: digest},
		Content{Name: p.Target, SourceNamespace: "harbour", Source: "second", Image: "example.com/buoy@sha256:1"}
	for name, test := range map[string]struct {
		content Content
		names   []string
		steps   []*v1alpha1.Step
		lookups []v1alpha1.BundleLookup
		want    string
	}{
		"as planned":                  {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest)), service}},
		"another content":             {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(otherManifest)), service}, want: "differ from those in the catalog"},
		"an object missing":           {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest))}, want: "differ from those in the catalog"},
		"an additional object":        {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest)), service, step("ClusterRole", "second", `{"kind":"ClusterRole"}`)}, want: "ClusterRole buoy.v1.1.0"},
		"no steps":                    {content: carried, steps: nil, want: "no ClusterServiceVersion of that name"},
		"another catalog":             {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "forged", string(manifest)), service}, want: "comes from CatalogSource harbour/forged"},
		"an image instead":            {content: carried, lookups: lookup("second", "example.com/forged"), want: `image "example.com/forged", want ""`},
		"an additional version":       {content: carried, names: []string{"other.v1"}, want: "would install other.v1"},
		"the image":                   {content: image, lookups: lookup("second", image.Image), steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", `{"kind":"ConfigMap"}`)}},
		"another image":               {content: image, lookups: lookup("second", "example.com/forged"), want: `image "example.com/forged"`},
		"an image of another catalog": {content: image, lookups: lookup("forged", image.Image), want: "CatalogSource"},
		"no image":                    {content: image, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest))}, want: `image "", want`},
	} {
		t.Run(name, func(t *testing.T) {
			planned := *p
			planned.Contents = []Content{test.content}
			err := planned.matches(&v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{ClusterServiceVersionNames: append(test.names, p.Target)},
				Status: v1alpha1.InstallPlanStatus{Plan: test.steps, BundleLookups: test.lookups}})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
