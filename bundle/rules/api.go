package rules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/install"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/rules/apiserver"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
)

var (
	acceptedRule = findings.Rule{ID: "api-server", Severity: findings.Error, What: "The API server accepts each object of the bundle, and each object that OLM makes from the ClusterServiceVersion.",
		Why: "The installation fails. Kinds of OpenShift and of Prometheus are not checked, except for what all objects have in common."}
	droppedRule = findings.Rule{ID: "api-warning", Severity: findings.Warning, What: "The API server drops no field of an object, and warns of nothing.",
		Why: "A field with a typing error has no effect, and nobody notices."}
	sizeRule = findings.Rule{ID: "object-size", Severity: findings.Error, What: "No object is larger than 1.5 MiB.",
		Why: "etcd takes no larger ones. Compressing the object makes no difference."}
)

// sizeLimit is the size of a request that etcd takes by default, in bytes.
const sizeLimit = 3 << 19

// checkAccepted checks each object as the API server does when OLM creates it.
func checkAccepted(c *checked, rule findings.Rule) {
	for _, o := range c.bundle.Objects {
		c.objectAccepted(o, rule)
	}
	if c.csv != nil {
		c.strategyAccepted(rule)
		c.webhooksAccepted(rule)
	}
}

// objectAccepted checks one object.
func (c *checked) objectAccepted(o registryv1.Object, rule findings.Rule) {
	kind := o.GroupVersionKind()
	isDefinition := kind.Kind == "CustomResourceDefinition"
	digest := sha256.Sum256(o.Document.Source)
	if faults, known := definitionFaults.Load(digest); isDefinition && known {
		c.report(definitionRule, o.File, faults.([]apiserver.Fault))
		return
	}
	twice := c.placesIn(o.File).twice()
	for _, key := range twice {
		f := droppedRule.Finding(o.Document.File, "field %s is given twice; only the last one counts", key.Value)
		c.found = append(c.found, f.At(c.placesIn(o.File).inFile(key)))
	}
	if kind.Kind == v1alpha1.ClusterServiceVersionKind {
		if want := v1alpha1.SchemeGroupVersion.String(); o.GetAPIVersion() != want {
			rule := rule
			if o.GetAPIVersion() != "" {
				rule = droppedRule // OLM's client writes the right one
			}
			c.find(rule, o.File, []any{"apiVersion"}, "apiVersion of the ClusterServiceVersion is %q; expected %s", o.GetAPIVersion(), want)
		}
		all := apiserver.ClusterServiceVersion(o.Object)
		isRefused := slices.ContainsFunc(all, func(f apiserver.Fault) bool { return !f.Warning })
		faults := slices.DeleteFunc(all, func(f apiserver.Fault) bool {
			return len(f.Path) == 3 && f.Path[1] == "annotations" // checkFeatures says more about it
		})
		c.tolerated(faults)
		for _, f := range faults {
			if !f.Warning {
				c.refused[shown(f.Path)] = true
			}
		}
		c.report(rule, o.File, faults)
		if c.csv == nil && !isRefused {
			c.decodingFault(rule, o, &v1alpha1.ClusterServiceVersion{})
		}
		return
	}
	object := apiserver.New(kind)
	if object == nil {
		c.report(rule, o.File, apiserver.Metadata(o.Object))
		return
	}
	if !c.decodingFault(rule, o, object) {
		return
	}
	if isDefinition && kind.Version != "v1" {
		return // the API server has had only v1 since Kubernetes 1.22; a validator checks other versions
	}
	faults := append(apiserver.Unknown(o.Document.Content, kind), apiserver.Validate(object)...)
	if isDefinition {
		rule = definitionRule
		if len(twice) == 0 && len(faults) <= document.MaxFaults { // a hostile one may have very many
			definitionFaults.Store(digest, faults)
		}
	}
	c.report(rule, o.File, faults)
}

// definitionFaults caches the []apiserver.Fault of CustomResourceDefinitions with few faults and no duplicate fields, by the SHA-256 digest of their source.
// Most versions of an operator have the same ones, and no other check takes as long.
var definitionFaults sync.Map

// tolerated downgrades a fault to a warning if OLM corrects it: OLM decodes a ClusterServiceVersion into its Go type and writes it again,
// which fills in missing texts as empty ones.
func (c *checked) tolerated(faults []apiserver.Fault) {
	if c.csv == nil || !slices.ContainsFunc(faults, func(f apiserver.Fault) bool { return !f.Warning }) {
		return
	}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.csv)
	if err != nil {
		return
	}
	left := map[string]bool{}
	for _, f := range apiserver.ClusterServiceVersion(written) {
		left[shown(f.Path)] = true
	}
	for i, f := range faults {
		if !f.Warning && !left[shown(f.Path)] {
			faults[i].Warning = true
			faults[i].Message += "; OLM fills in an empty text, but the API server refuses the ClusterServiceVersion from anybody else"
		}
	}
}

// decodingFault decodes an object into its type, and reports the value that prevents it.
func (c *checked) decodingFault(rule findings.Rule, o registryv1.Object, into runtime.Object) (decoded bool) {
	err := o.Document.Decode(into)
	if err == nil {
		return true
	}
	found, others := registryv1.Faults(err)
	for _, f := range found {
		f.Rule = rule.ID
		c.found = append(c.found, f)
	}
	for _, other := range others {
		path := valueWithFault(o.Document.Content, into)
		c.find(rule, o.File, path, "%s: the API server cannot read it: %v", shown(path), other)
	}
	return false
}

// report adds the API server's faults of an object in a file.
func (c *checked) report(rule findings.Rule, file string, faults []apiserver.Fault) {
	for i, fault := range faults {
		if i == document.MaxFaults {
			if !slices.ContainsFunc(faults[i:], func(f apiserver.Fault) bool { return !f.Warning }) {
				rule = droppedRule
			}
			c.find(rule, file, fault.Path, "there are %d more faults; correct the reported ones first", len(faults)-i)
			return
		}
		if fault.Warning {
			c.find(droppedRule, file, fault.Path, "%s", fault.Message)
		} else {
			c.find(rule, file, fault.Path, "%s", fault.Message)
		}
	}
}

// inStrategy returns the path of a value in the install strategy.
func inStrategy(path ...any) []any { return append([]any{"spec", "install", "spec"}, path...) }

// strategyAccepted checks the objects that OLM makes from the install strategy: Deployments, ServiceAccounts, Roles and
// ClusterRoles.
func (c *checked) strategyAccepted(rule findings.Rule) {
	strategy := c.csv.Spec.InstallStrategy.StrategySpec
	for i, d := range strategy.DeploymentSpecs {
		at := inStrategy("deployments", i)
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Labels: d.Label}, Spec: *d.Spec.DeepCopy()}
		if c.hasCertificate(d.Name) {
			install.AddDefaultCertVolumeAndVolumeMounts(&deployment.Spec, "cert") // of a Secret that OLM makes
			if service := install.ServiceName(d.Name); d.Name != "" {
				for _, fault := range validation.IsDNS1035Label(service) {
					c.find(rule, c.csvFile, append(slices.Clone(at), "name"), "%s: it serves webhooks or APIs, and the API server refuses a Service called %s, which OLM makes: %s; rename the Deployment", shown(at), service, fault)
				}
			}
		}
		c.part(rule, at, deployment, func(path []any) []any {
			switch {
			case len(path) > 1 && path[0] == "metadata" && path[1] == "labels":
				return append([]any{"label"}, path[2:]...)
			case len(path) > 0 && path[0] == "metadata":
				return path[1:]
			}
			return path
		})
	}
	for field, all := range map[string][]v1alpha1.StrategyDeploymentPermissions{"permissions": strategy.Permissions, "clusterPermissions": strategy.ClusterPermissions} {
		for i, p := range all {
			name := p.ServiceAccountName
			inside := func(path []any) []any {
				if len(path) > 0 && path[0] == "metadata" {
					return []any{"serviceAccountName"}
				}
				return path
			}
			at := inStrategy(field, i)
			if name == "" && !c.refused[shown(append(at, "serviceAccountName"))] {
				c.find(rule, c.csvFile, append(at, "serviceAccountName"), "%s: OLM has no ServiceAccount to give these permissions to; expected the name of one", shown(append(at, "serviceAccountName")))
			} else if name != "" {
				c.part(rule, at, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, inside)
			}
			// OLM chooses the names of the roles.
			if field == "permissions" {
				c.part(rule, at, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "role"}, Rules: p.Rules}, inside)
			} else {
				c.part(rule, at, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role"}, Rules: p.Rules}, inside)
			}
		}
	}
}

// hasCertificate reports whether OLM gives a Deployment a certificate, because it serves webhooks or an API.
func (c *checked) hasCertificate(deployment string) bool {
	return slices.ContainsFunc(c.csv.Spec.WebhookDefinitions, func(w v1alpha1.WebhookDescription) bool { return w.DeploymentName == deployment }) ||
		slices.ContainsFunc(c.csv.Spec.APIServiceDefinitions.Owned, func(a v1alpha1.APIServiceDescription) bool { return a.DeploymentName == deployment })
}

// webhooksAccepted checks the webhook configurations that OLM makes.
func (c *checked) webhooksAccepted(rule findings.Rule) {
	for i, w := range c.csv.Spec.WebhookDefinitions {
		at := []any{"spec", "webhookdefinitions", i}
		inside := func(path []any) []any {
			switch {
			case len(path) > 0 && path[0] == "metadata", len(path) > 2 && path[2] == "name":
				return []any{"generateName"}
			case len(path) > 2 && path[2] == "clientConfig":
				return []any{"webhookPath"}
			case len(path) > 2:
				return path[2:] // webhooks[0]
			}
			return path
		}
		if w.GenerateName == "" {
			continue // another rule reports it
		}
		if w.ContainerPort == 0 {
			w.ContainerPort = 443 // the default of the schema
		}
		name := metav1.ObjectMeta{Name: w.GenerateName + "-abcde"}
		switch w.Type {
		case v1alpha1.ValidatingAdmissionWebhook:
			c.part(rule, at, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionregistrationv1.ValidatingWebhook{w.GetValidatingWebhook("default", nil, nil)}}, inside)
		case v1alpha1.MutatingAdmissionWebhook:
			c.part(rule, at, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name, Webhooks: []admissionregistrationv1.MutatingWebhook{w.GetMutatingWebhook("default", nil, nil)}}, inside)
		}
	}
}

// part checks an object that OLM makes from a part of the ClusterServiceVersion. inside maps a path in the object to a path in that
// part.
func (c *checked) part(rule findings.Rule, at []any, object runtime.Object, inside func([]any) []any) {
	var faults []apiserver.Fault
	for _, f := range apiserver.Validate(object) {
		f.Path = append(slices.Clone(at), inside(f.Path)...)
		if c.isRefused(f.Path) || c.refused[shown(append(slices.Clone(at), "spec", "selector"))] && strings.Contains(f.Message, "`selector` does not match") {
			continue // the schema reports it
		}
		f.Message = fmt.Sprintf("%s: %s", shown(at), f.Message)
		faults = append(faults, f)
	}
	c.report(rule, c.csvFile, faults)
}

// isRefused reports whether the schema of ClusterServiceVersions refuses the value at a path, or a value around it.
func (c *checked) isRefused(path []any) bool {
	for length := len(path); length > 0; length-- {
		if c.refused[shown(path[:length])] {
			return true
		}
	}
	return false
}

// shown returns a path as text.
func shown(path []any) string {
	text := ""
	for _, step := range path {
		if index, is := step.(int); is {
			text += fmt.Sprintf("[%d]", index)
			continue
		}
		if text != "" {
			text += "."
		}
		text += fmt.Sprint(step)
	}
	return text
}

// keyLimit is the number of keys above which an object is not searched for the wrong one, because each key costs one
// decoding of the whole object.
const keyLimit = 100

// valueWithFault returns the path to the value that prevents an object from being decoded: the deepest value without
// which decoding succeeds.
func valueWithFault(content []byte, into runtime.Object) (path []any) {
	var object map[string]any
	if json.Unmarshal(content, &object) != nil {
		return nil
	}
	decodes := func() bool {
		text, err := json.Marshal(object)
		return err == nil && json.Unmarshal(text, into) == nil
	}
	for at := object; at != nil && len(at) <= keyLimit; {
		var next map[string]any
		for key, value := range at {
			delete(at, key)
			isIt := decodes()
			at[key] = value
			if isIt {
				path = append(path, key)
				next, _ = value.(map[string]any)
				break
			}
		}
		at = next
	}
	return path
}

func checkSizes(c *checked, rule findings.Rule) {
	for _, o := range c.bundle.Objects {
		if size := len(o.Document.Content); size > sizeLimit {
			c.find(rule, o.File, nil, "%s %s takes %d bytes as JSON; etcd takes at most %d: shorten it, for example the descriptions", o.GetKind(), o.GetName(), size, sizeLimit)
		}
	}
}
