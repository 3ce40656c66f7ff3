package switchover

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/olm/prediction"
)

// sound is a plan that can be carried out, one way or another.
func sound(way Way) *Plan {
	p := &Plan{
		Schema:       Schema,
		Subscription: Subscription{Namespace: "harbour", Name: "buoy", UID: "s-1", NamespaceUID: "n-1", Generation: 1},
		From:         Choice{Source: "first", SourceNamespace: "harbour", Package: "buoy", Channel: "stable"},
		To:           Choice{Source: "second", SourceNamespace: "harbour", Package: "buoy", Channel: "stable"},
		Installed:    "buoy.v1.0.0", Target: "buoy.v1.1.0", Way: way, Safe: true,
	}
	outcome := &prediction.Prediction{Subscription: "buoy", Verdict: prediction.Updates, Next: &prediction.Update{Name: p.Target}}
	switch way {
	case Replace:
		p.To.Package = "beacon"
	case Stay:
		p.Target, outcome = p.Installed, &prediction.Prediction{Subscription: "buoy", Verdict: prediction.Latest}
	}
	if way != Stay {
		p.Contents = []Content{{Name: p.Target, SourceNamespace: "harbour", Source: "second"}}
	}
	p.Outcomes = []*prediction.Prediction{outcome}
	p.Steps = stepsOf(p)
	return p
}

func text(t testing.TB, p *Plan) string {
	t.Helper()
	written, err := p.encoded()
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

// stored is the ConfigMap of a journal.
func stored(name, plan, state, log, nonce, uid string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultJournalNamespace, Name: name},
		Data: map[string]string{planKey: plan, stateKey: state, entriesKey: log, nonceKey: nonce, uidKey: uid}}
}

// Each plan has one thing that is not as it is written, and is refused by its name.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		way    Way
		change func(*Plan)
		want   string // of the error
	}{
		"an update":                         {Update, func(*Plan) {}, ""},
		"a replacement":                     {Replace, func(*Plan) {}, ""},
		"nothing to install":                {Stay, func(*Plan) {}, ""},
		"no namespace":                      {Update, func(p *Plan) { p.Subscription.Namespace = "" }, "subscription.namespace"},
		"a path for a namespace":            {Update, func(p *Plan) { p.Subscription.Namespace = "../kube-system" }, "subscription.namespace"},
		"no name":                           {Update, func(p *Plan) { p.Subscription.Name = "" }, "subscription.name"},
		"no UID":                            {Update, func(p *Plan) { p.Subscription.UID = "" }, "subscription.uid"},
		"no UID of the namespace":           {Update, func(p *Plan) { p.Subscription.NamespaceUID = "" }, "subscription.namespaceUID"},
		"no generation":                     {Update, func(p *Plan) { p.Subscription.Generation = 0 }, "subscription.generation"},
		"an approval that OLM has not":      {Update, func(p *Plan) { p.Subscription.Approval = "Never" }, "subscription.approval"},
		"no package before":                 {Update, func(p *Plan) { p.From.Package = "" }, "from.package"},
		"lines in a channel":                {Update, func(p *Plan) { p.To.Channel = "stable\nsafe" }, "to.channel"},
		"no source":                         {Update, func(p *Plan) { p.To.Source = "" }, "to.source"},
		"a long package":                    {Update, func(p *Plan) { p.To.Package = strings.Repeat("x", maxText+1) }, "to.package"},
		"a way that there is not":           {Update, func(p *Plan) { p.Way = "leap" }, "way is"},
		"no target":                         {Update, func(p *Plan) { p.Target = "" }, "target is missing"},
		"a target that is installed":        {Update, func(p *Plan) { p.Target = p.Installed }, "target is what is installed"},
		"a replacement of nothing":          {Replace, func(p *Plan) { p.Installed = "" }, "installed is missing"},
		"a replacement by itself":           {Replace, func(p *Plan) { p.To.Package = p.From.Package }, "from.package is to.package"},
		"the target along":                  {Update, func(p *Plan) { p.Along = []string{p.Target} }, "along has the target"},
		"no content":                        {Update, func(p *Plan) { p.Contents = nil }, "contents are those of"},
		"a content from another catalog":    {Update, func(p *Plan) { p.Contents[0].Source = "third" }, "contents has buoy.v1.1.0 of harbour/third"},
		"another package's driver":          {Update, func(p *Plan) { p.Driver = &Driver{Name: "efs.csi.aws.com"} }, "driver is"},
		"a verdict that there is not":       {Update, func(p *Plan) { p.Checks = []Check{{Code: "x", Verdict: "fine"}} }, "verdict of check"},
		"safe against a check":              {Update, func(p *Plan) { p.Checks = []Check{{Code: "x", Verdict: Refused}} }, "safe is true"},
		"unsafe without a check":            {Update, func(p *Plan) { p.Safe = false }, "safe is false"},
		"steps of another way":              {Update, func(p *Plan) { p.Steps = sound(Replace).Steps }, "steps are not those"},
		"no outcomes":                       {Update, func(p *Plan) { p.Outcomes = nil }, "outcomes has none"},
		"an outcome that is null":           {Update, func(p *Plan) { p.Outcomes = append(p.Outcomes, nil) }, "one of outcomes is null"},
		"an outcome of another":             {Update, func(p *Plan) { p.Outcomes[0].Subscription = "other" }, "outcomes has none"},
		"an update to nothing":              {Update, func(p *Plan) { p.Outcomes[0].Next = nil }, "next: false"},
		"an outcome with another target":    {Update, func(p *Plan) { p.Outcomes[0].Next.Name = "other.v1" }, "is not the target"},
		"a plan of another version":         {Update, func(p *Plan) { p.Schema = "berth.switch-plan.v1" }, `want "berth.switch-plan.v2"`},
		"more bytes than any plan may have": {Update, func(p *Plan) { p.Outcomes[0].Message = strings.Repeat("x", maxPlan) }, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sound(test.way)
			test.change(p)
			written, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Read(strings.NewReader(string(written)))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestReadSaysItself(t *testing.T) {
	p := sound(Update)
	p.Steps[0].Does = "all is well"
	read, err := Read(strings.NewReader(text(t, p)))
	if err != nil || read.Steps[0].Does == "all is well" {
		t.Errorf("got %v, %+v; want that the steps say what they do, whatever was written", err, read)
	}
	if _, err := Read(strings.NewReader(text(t, sound(Update)) + "{}")); err == nil || !strings.Contains(err.Error(), "more follows") {
		t.Errorf("got %v, want that more follows", err)
	}
}

func TestParseJournal(t *testing.T) {
	p := sound(Replace)
	name, written, nonce := journalName(p.Subscription), text(t, p), strings.Repeat("0", nonceLength)
	const log = "2026-11-21T20:53:58Z record\n"
	unsafe := sound(Update)
	unsafe.Safe, unsafe.Steps, unsafe.Checks = false, nil, []Check{{Verdict: Refused}}
	for what, test := range map[string]struct {
		stored *corev1.ConfigMap
		want   string
	}{
		"a journal":                 {stored(name, written, "Applying", log, nonce, "s-2"), ""},
		"garbage":                   {stored(name, "garbage", "Applying", log, "", ""), `data["plan.json"]`},
		"the name of another":       {stored("berth-switch.harbour.other", written, "Applying", log, "", ""), "metadata.name"},
		"a state that there is not": {stored(name, written, "Applied", log, "", ""), `data["state"]`},
		"a step that there is not":  {stored(name, written, "Applying", "2026-11-21T20:53:58Z leap\n", "", ""), `data["log"]`},
		"no time":                   {stored(name, written, "Applying", "record\n", "", ""), `data["log"]`},
		"a log without end":         {stored(name, written, "Applying", strings.Repeat(log, maxEntries+1), "", ""), `data["log"]`},
		"a nonce of words":          {stored(name, written, "Applying", log, "any", ""), nonceKey},
		"a UID without a nonce":     {stored(name, written, "Applying", log, "", "s-2"), uidKey},
		"an unsafe plan":            {stored(name, text(t, unsafe), "Applying", log, "", ""), "no such plan is ever begun"},
		"another key": {func() *corev1.ConfigMap {
			s := stored(name, written, "Applying", log, "", "")
			s.Data["more"] = "x"
			return s
		}(), `key "more"`},
		"binary data": {func() *corev1.ConfigMap {
			s := stored(name, written, "Applying", log, "", "")
			s.BinaryData = map[string][]byte{planKey + "x": {0}}
			return s
		}(), `key "plan.jsonx"`},
	} {
		t.Run(what, func(t *testing.T) {
			j, err := parseJournal(test.stored)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "ConfigMap kube-system/"+test.stored.Name) || !strings.Contains(err.Error(), "delete it") {
					t.Errorf("got %v, want %q, where, and what to do", err, test.want)
				}
			} else if err != nil || !j.open() || j.last() != Record || j.renewal != (renewal{nonce, "s-2"}) {
				t.Errorf("got %+v, %v", j, err)
			}
		})
	}
}

func TestJournalNames(t *testing.T) {
	long := strings.Repeat("x", 250)
	names := map[string]Subscription{}
	for _, s := range []Subscription{
		{Namespace: "a", Name: "b.c"}, {Namespace: "a-b", Name: "c"}, {Namespace: "a", Name: "b-c"}, {Namespace: "long", Name: "a"},
		{Namespace: "a", Name: long}, {Namespace: "a", Name: long + "y"}, {Namespace: "aa", Name: long}, {Namespace: "long", Name: long},
	} {
		name := journalName(s)
		if clash, found := names[name]; found {
			t.Errorf("%s and %s share journal %s", s, clash, name)
		}
		names[name] = s
		if err := checkName("it", name); err != nil {
			t.Error(err)
		}
	}
}

// What a command line says differs from a plan, or it does not.
func TestRequestDiffers(t *testing.T) {
	asked := Request{Package: "buoy", Source: "second"}
	for name, test := range map[string]struct {
		way    Way
		change func(*Request, *Plan)
		want   string
	}{
		"the same":          {Update, func(*Request, *Plan) {}, ""},
		"all said":          {Update, func(r *Request, _ *Plan) { r.SourceNamespace, r.Channel, r.NewPackage = "harbour", "stable", "buoy" }, ""},
		"another catalog":   {Update, func(r *Request, _ *Plan) { r.Source = "third" }, "--to"},
		"another namespace": {Update, func(r *Request, _ *Plan) { r.SourceNamespace = "elsewhere" }, "--to"},
		"another channel":   {Update, func(r *Request, _ *Plan) { r.Channel = "fast" }, "--channel"},
		"a channel unsaid":  {Update, func(_ *Request, p *Plan) { p.To.Channel = "fast" }, "--channel"},
		"the default channel": {Update, func(_ *Request, p *Plan) {
			p.To.Channel, p.Checks = "fast", []Check{{Code: channelChanged, Verdict: Warning}}
		}, ""},
		"a package unsaid":     {Replace, func(*Request, *Plan) {}, "--new-package"},
		"a package said":       {Replace, func(r *Request, _ *Plan) { r.NewPackage = "beacon" }, ""},
		"by the new name":      {Replace, func(r *Request, _ *Plan) { r.Package = "beacon" }, ""},
		"the driver besides":   {Update, func(r *Request, _ *Plan) { r.CreateDriver = true }, "--create-driver"},
		"the driver left away": {Update, func(_ *Request, p *Plan) { p.Driver = &Driver{Create: true} }, "--create-driver"},
	} {
		t.Run(name, func(t *testing.T) {
			r, p := asked, sound(test.way)
			test.change(&r, p)
			err := r.differs(p)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// FuzzJournal wants whatever is read as a journal to be shown and decided about, in whichever situation.
func FuzzJournal(f *testing.F) {
	for _, way := range []Way{Update, Replace, Stay} {
		f.Add(journalName(sound(way).Subscription), text(f, sound(way)), "Applying", "2026-11-21T20:53:58Z record\n", strings.Repeat("0", nonceLength), "s-2")
		f.Add(journalName(sound(way).Subscription), text(f, sound(way)), "RollingBack", "2026-11-21T20:53:58Z settle\n", "", "")
	}
	f.Add("x", `{"schema":"berth.switch-plan.v2","outcomes":[null]}`, "Applying", "", "", "")
	f.Fuzz(func(t *testing.T, name, plan, state, log, nonce, uid string) {
		j, err := parseJournal(stored(name, plan, state, log, nonce, uid))
		if err != nil {
			return
		}
		again, err := Read(strings.NewReader(text(t, j.Plan)))
		if err != nil || !again.equal(j.Plan) {
			t.Errorf("it reads as another plan when it is written again: %v", err)
		}
		_ = j.Plan.Text(Plain)
		_ = (&Status{State: j.State, Plan: j.Plan, Log: j.Entries}).Text(Colours)
		_ = j.Plan.command("apply")
		_ = Request{Package: j.Plan.From.Package}.differs(j.Plan)
		for _, s := range situations(j) {
			_, _ = s.decide()
			_, _ = s.back()
		}
	})
}

// situations are some that a cluster may show.
func situations(j *Journal) []*situation {
	p := j.Plan
	version := func(name string) v1alpha1.ClusterServiceVersion {
		return v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	request := &v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{ClusterServiceVersionNames: []string{p.Target}},
		Status: v1alpha1.InstallPlanStatus{Phase: v1alpha1.InstallPlanPhaseRequiresApproval, Plan: []*v1alpha1.Step{nil, {Resolving: p.Target}},
			BundleLookups: []v1alpha1.BundleLookup{{Identifier: p.Target}}}}
	all := []*situation{{plan: p}, {plan: p, journal: j}, {plan: p, journal: j, namespaceUID: p.Subscription.NamespaceUID}}
	for _, choice := range []Choice{p.From, p.To} {
		for _, installed := range []string{"", p.Installed, p.Target} {
			s := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{UID: p.Subscription.UID}, Spec: &v1alpha1.SubscriptionSpec{Config: p.Subscription.Config}}
			choice.choose(s.Spec)
			s.Status.InstalledCSV = installed
			seen := &situation{plan: p, journal: j, namespaceUID: p.Subscription.NamespaceUID, subscription: s, versions: []v1alpha1.ClusterServiceVersion{version(installed)},
				named: request, requests: []*v1alpha1.InstallPlan{request}}
			manual := *seen
			manual.subscription = s.DeepCopy()
			manual.subscription.Spec.InstallPlanApproval = v1alpha1.ApprovalManual
			all = append(all, seen, &manual)
		}
	}
	return all
}

// What an InstallPlan installs is what was foretold, or it is not.
func TestForetold(t *testing.T) {
	p := sound(Update)
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: p.Target}}
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyNameDeployment
	csv.Spec.Replaces = p.Installed
	digest, err := digestOf(csv, [][]byte{[]byte(`{"kind":"Service"}`)})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(csv)
	if err != nil {
		t.Fatal(err)
	}
	other := csv.DeepCopy()
	other.Spec.DisplayName = "other"
	otherManifest, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
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
		"as foretold":                 {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest)), service}},
		"another content":             {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(otherManifest)), service}, want: "is not as the catalog had it"},
		"an object less":              {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest))}, want: "is not as the catalog had it"},
		"an object more":              {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest)), service, step("ClusterRole", "second", `{"kind":"ClusterRole"}`)}, want: "ClusterRole buoy.v1.1.0"},
		"nothing of it":               {content: carried, steps: nil, want: "no ClusterServiceVersion of that name"},
		"another catalog":             {content: carried, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "forged", string(manifest)), service}, want: "comes from CatalogSource harbour/forged"},
		"an image instead":            {content: carried, lookups: lookup("second", "example.com/forged"), want: `image "example.com/forged", want ""`},
		"another version along":       {content: carried, names: []string{"other.v1"}, want: "would install other.v1"},
		"the image":                   {content: image, lookups: lookup("second", image.Image), steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", `{"kind":"ConfigMap"}`)}},
		"another image":               {content: image, lookups: lookup("second", "example.com/forged"), want: `image "example.com/forged"`},
		"an image of another catalog": {content: image, lookups: lookup("forged", image.Image), want: "CatalogSource"},
		"no image":                    {content: image, steps: []*v1alpha1.Step{step("ClusterServiceVersion", "second", string(manifest))}, want: `image "", want`},
	} {
		t.Run(name, func(t *testing.T) {
			foretold := *p
			foretold.Contents = []Content{test.content}
			err := foretold.matches(&v1alpha1.InstallPlan{Spec: v1alpha1.InstallPlanSpec{ClusterServiceVersionNames: append(test.names, p.Target)},
				Status: v1alpha1.InstallPlanStatus{Plan: test.steps, BundleLookups: test.lookups}})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
