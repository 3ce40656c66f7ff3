package move

import (
	"fmt"

	"github.com/berth-csi/berth/migrate"
)

// The steps of a move.
const (
	DeleteSubscription       migrate.StepName = "delete-subscription"        // delete the Subscription, so OLM v0 resolves nothing for it
	DeleteInstallPlans       migrate.StepName = "delete-installplans"        // delete the InstallPlans that only the Subscription owns
	AwaitV0                  migrate.StepName = "await-olm-v0"               // give OLM v0 time for work that it still remembers
	KeepPermissions          migrate.StepName = "keep-permissions"           // remove the labels by which OLM v0 would delete cluster roles
	RestorePermissions       migrate.StepName = "restore-permissions"        // add these labels again
	KeepAPIs                 migrate.StepName = "keep-apis"                  // annotate an API without OLM v0's label as the operator's
	AddVersionFinalizer      migrate.StepName = "add-version-finalizer"      // add the finalizer that keeps the ClusterServiceVersion until all is safe
	DeleteVersion            migrate.StepName = "delete-version"             // delete the ClusterServiceVersion, and orphan its objects
	KeepObjects              migrate.StepName = "keep-objects"               // remove an object's reference to an owner that is about to go
	RemoveVersionFinalizer   migrate.StepName = "remove-version-finalizer"   // remove the finalizer
	MarkObjects              migrate.StepName = "mark-objects"               // mark an object so that OLM v1 takes it over
	CreateExtension          migrate.StepName = "create-extension"           // create the ClusterExtension
	AwaitExtension           migrate.StepName = "await-extension"            // wait until OLM v1 has installed the version
	DeleteReplaced           migrate.StepName = "delete-replaced"            // delete the objects that the other OLM has replaced
	Loosen                   migrate.StepName = "loosen"                     // let OLM v1 update the operator
	AddExtensionFinalizer    migrate.StepName = "add-extension-finalizer"    // add the finalizer that keeps the ClusterExtension until all is safe
	DeleteExtension          migrate.StepName = "delete-extension"           // delete the ClusterExtension, and orphan its objects
	DeleteObjectSets         migrate.StepName = "delete-objectsets"          // delete the ClusterObjectSets
	AwaitV1                  migrate.StepName = "await-olm-v1"               // give OLM v1 the time to finish applying
	UnmarkObjects            migrate.StepName = "unmark-objects"             // remove the marks and owners of OLM v1 from an object
	RemoveExtensionFinalizer migrate.StepName = "remove-extension-finalizer" // remove the finalizer
	DeleteRemembered         migrate.StepName = "delete-remembered"          // delete OLM v1's records of the installation
	CreateSubscription       migrate.StepName = "create-subscription"        // create the Subscription, with manual approval
	Approve                  migrate.StepName = "approve"                    // approve the InstallPlan if it is for exactly the version
	AwaitVersion             migrate.StepName = "await-version"              // wait until OLM v0 has installed the version
	ResetStatus              migrate.StepName = "reset-status"               // reset the Subscription's status, because OLM v0 waits for an InstallPlan that is gone
	RestoreApproval          migrate.StepName = "restore-approval"           // restore the Subscription as it was before
	DeleteMade               migrate.StepName = "delete-made"                // delete OLM v1's roles and bindings
)

func toV1(p *Plan) bool { return p.To == ToV1 }
func toV0(p *Plan) bool { return p.To == ToV0 }

func never(*Plan) bool { return false }

func hasReplaced(p *Plan) bool    { return toV1(p) && len(p.Replaced) > 0 }
func hasPermissions(p *Plan) bool { return toV1(p) && len(p.clusterPermissions()) > 0 }
func hasBoxcutter(p *Plan) bool   { return toV0(p) && p.Extension.Boxcutter }

// steps are the steps of all moves. A plan can come to steps that it does not list: a rollback to OLM v0 takes the steps of a move back.
var steps = migrate.StepTable[*Plan]{
	{Name: AddVersionFinalizer, Lists: toV1, Does: func(p *Plan) string {
		return fmt.Sprintf("add finalizer %s to ClusterServiceVersion %s, so that it stays until it owns nothing", moveFinalizer, p.Version.Name)
	}},
	{Name: KeepPermissions, Lists: hasPermissions, Does: func(*Plan) string {
		return "remove the labels by which OLM v0 would delete the operator's cluster roles"
	}},
	{Name: KeepAPIs, Lists: never, Does: func(p *Plan) string {
		return fmt.Sprintf("annotate an API that OLM v0 does not show as a part of package %s, so that it is known to belong to the package", p.Package)
	}},
	{Name: DeleteVersion, Lists: toV1, Does: func(p *Plan) string {
		return fmt.Sprintf("delete ClusterServiceVersion %s, and orphan its objects; the operator keeps running", p.Version.Name)
	}},
	{Name: DeleteSubscription, Lists: toV1, Does: func(p *Plan) string {
		return fmt.Sprintf("delete Subscription %s/%s", p.Namespace, p.Subscription.Name)
	}},
	{Name: DeleteInstallPlans, Lists: toV1, Does: func(*Plan) string {
		return "delete the Subscription's InstallPlans, so that OLM v0 does not carry one out again"
	}},
	{Name: AwaitV0, Lists: toV1, Does: func(*Plan) string {
		return "give OLM v0 time for work that it still remembers"
	}},
	{Name: RestorePermissions, Lists: never, Does: func(*Plan) string {
		return "add the labels again by which OLM v0 deletes the operator's cluster roles"
	}},
	{Name: KeepObjects, Lists: never, Does: func(*Plan) string {
		return "remove an owner that is about to go from an object that OLM has made its own again"
	}},
	{Name: RemoveVersionFinalizer, Lists: toV1, Does: func(p *Plan) string {
		return fmt.Sprintf("remove finalizer %s from ClusterServiceVersion %s", moveFinalizer, p.Version.Name)
	}},
	{Name: MarkObjects, Lists: func(p *Plan) bool { return toV1(p) && !p.Extension.Boxcutter }, Does: doesMark},
	{Name: CreateExtension, Lists: toV1, Does: func(p *Plan) string {
		return fmt.Sprintf("create ClusterExtension %s of exactly version %s", p.Subject.Name, p.Version.Number)
	}},
	{Name: AwaitExtension, Lists: toV1, Does: func(p *Plan) string {
		if p.Extension.Boxcutter {
			return "wait until OLM v1 has taken over the operator; meanwhile " + doesMark(p)
		}
		return "wait until OLM v1 has taken over the operator"
	}},
	{Name: DeleteReplaced, Lists: hasReplaced, Does: func(*Plan) string {
		return "delete the permissions that OLM v0 has made, as OLM v1 has made its own"
	}},
	{Name: Loosen, Lists: toV1, NoReturn: toV1, Does: func(p *Plan) string {
		return fmt.Sprintf("let the ClusterExtension be as the Subscription was: it %s", p.Extension.follows(p.Version))
	}},
	{Name: AddExtensionFinalizer, Lists: toV0, Does: func(p *Plan) string {
		return fmt.Sprintf("add finalizer %s to ClusterExtension %s, so that it stays until it owns nothing", moveFinalizer, p.Subject.Name)
	}},
	{Name: DeleteExtension, Lists: toV0, NoReturn: toV0, Does: func(p *Plan) string {
		return fmt.Sprintf("delete ClusterExtension %s, and orphan its objects; the operator keeps running", p.Subject.Name)
	}},
	{Name: DeleteObjectSets, Lists: hasBoxcutter, Does: func(*Plan) string {
		return "delete the ClusterObjectSets, and orphan their objects"
	}},
	{Name: AwaitV1, Lists: toV0, Does: func(*Plan) string {
		return "give OLM v1 time to finish applying"
	}},
	{Name: UnmarkObjects, Lists: toV0, Does: func(*Plan) string {
		return "remove the labels, the annotations and the owners of OLM v1 from each object"
	}},
	{Name: RemoveExtensionFinalizer, Lists: toV0, Does: func(p *Plan) string {
		return fmt.Sprintf("remove finalizer %s from ClusterExtension %s", moveFinalizer, p.Subject.Name)
	}},
	{Name: DeleteRemembered, Lists: toV0, Does: func(*Plan) string {
		return "delete the Secrets in which OLM v1 remembers the installation"
	}},
	{Name: CreateSubscription, Lists: toV0, Does: func(p *Plan) string {
		return fmt.Sprintf("create Subscription %s/%s, which starts at %s, with manual approval", p.Namespace, p.Subscription.Name, p.Version.Name)
	}},
	{Name: Approve, Lists: toV0, Does: func(p *Plan) string {
		return fmt.Sprintf("approve the InstallPlan if it installs exactly %s", p.Version.Name)
	}},
	{Name: AwaitVersion, Lists: toV0, Does: func(p *Plan) string {
		return fmt.Sprintf("wait until ClusterServiceVersion %s has succeeded", p.Version.Name)
	}},
	{Name: ResetStatus, Lists: never, Does: func(p *Plan) string {
		return fmt.Sprintf("reset the status of Subscription %s/%s, as it names an InstallPlan that is gone", p.Namespace, p.Subscription.Name)
	}},
	{Name: RestoreApproval, Lists: toV0, Does: func(*Plan) string {
		return "restore the Subscription as it was before the move to OLM v1"
	}},
	{Name: DeleteMade, Lists: toV0, Does: func(*Plan) string {
		return "delete the permissions and webhooks that OLM v1 has made, as OLM v0 has made its own"
	}},
}

func doesMark(p *Plan) string {
	if p.Extension.Boxcutter {
		return "make the ClusterObjectSet of OLM v1 the controller of each object that stays"
	}
	return "give each object that stays the label and the annotations of OLM v1's objects"
}

// ListSteps returns the steps of the plan.
func (p *Plan) ListSteps() []migrate.Step { return steps.List(p) }

// Does describes a step of the plan or of its rollback.
func (p *Plan) Does(step migrate.StepName) string { return steps.Does(p, step) }

// clusterPermissions returns the replaced objects that OLM v0 deletes by their labels.
func (p *Plan) clusterPermissions() (found []Object) {
	for _, o := range p.Replaced {
		if isPermission(o.Group, o.Kind) && isOfCluster(o.Kind) {
			found = append(found, o)
		}
	}
	return found
}
