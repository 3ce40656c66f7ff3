package sharedvolume_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// attacks are one tenant's attempts against another, or against the cluster; package test/trials lists them. After each,
// arena checks that the victim's volume is unchanged and that the attacker did not get it.
var attacks = []struct {
	name  string
	mount func(arena)
}{
	{"park a claim for a volume to come", parkClaim},
	{"choose names that add up to another's", clashingNames},
	{"be there first with claim or volume", thereFirst},
	{"bind a claim to another volume", otherVolume},
	{"smuggle a path into an ID", smuggledPath},
	{"name any access point", anyAccessPoint},
	{"forge what would say that it was granted", forgedGrant},
	{"inherit the grant of a deleted namespace", inheritedGrant},
	{"be there first where a grant waits for a namespace", awaitedNamespace},
	{"inherit a community operator's volume by its names", inheritedVolume},
	{"keep others waiting by many without a grant", manyUngranted},
	{"pass for a cluster of the community operator", forgedOrigin},
	{"change the spec of a mounted volume", changedSpec},
	{"delete and recreate with other IDs", otherIDs},
	{"hold the namespace by a finalizer", heldNamespace},
	{"create in a namespace that ends", endingNamespace},
	{"leak volumes by a quota", quotaLeak},
	{"forge labels on a claim", forgedLabels},
	{"use long names", longNames},
	{"store large objects", largeObjects},
	{"create very many", veryMany},
	{"forge the status", forgedStatus},
	{"smuggle mount options", smuggledOptions},
	{"use one access point twice", usedTwice},
	{"get a volume that is deleted with its claim", reclaimDelete},

	{"leak volumes by taking finalizers off", finalizerLeak},
	{"hide a claim from the operator", hiddenClaim},
	{"mount without a claim", inlineVolume},
	{"make a volume oneself", ownVolume},
	{"take a volume that exists", takenVolume},
	{"grant oneself", selfGrant},
	{"give oneself rights", selfRights},
	{"open the door", openDoor},
	{"reach into another's namespace", reachAcross},
}

// arena is where an attack takes place. The attacker is the administrator of the namespace "x", the
// victim of "x-b". The victim has the SharedVolume "c", and the attacker may use two access points of
// another file system.
type arena struct {
	testEnv
	t                *testing.T
	attacker, victim tenant
	stake            *v1alpha1.SharedVolume // the victim's
	held             pair
}

func testAttacks(t *testing.T, env testEnv) {
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, env.in(t))
			attack.mount(a)
			a.check()
		})
	}
}

func newArena(t *testing.T, env testEnv) arena {
	t.Helper()
	x := env.Namespace(t)
	b := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: x + "-b"}}
	env.do("create", env.client.Create(t.Context(), b))
	t.Cleanup(func() { env.do("delete", client.IgnoreNotFound(env.client.Delete(context.Background(), b))) })
	env.grant(x, "fs-0a", "fsap-01", "fsap-02")
	env.grant(b.Name, "fs-01", "fsap-02")
	a := arena{testEnv: env, t: t, attacker: env.tenant(x, "admin"), victim: env.tenant(b.Name, "admin")}
	a.stake = volumeOf(b.Name, "c", "fs-01", "fsap-02")
	a.do("create", a.victim.api.Create(t.Context(), a.stake))
	a.held = env.ready(a.stake)
	return a
}

// own returns a SharedVolume that the attacker may create.
func (a arena) own(name string) *v1alpha1.SharedVolume {
	return volumeOf(a.attacker.namespace, name, "fs-0a", "fsap-01")
}

// created creates an object as the attacker.
func (a arena) created(object client.Object) {
	a.t.Helper()
	a.do("create", a.attacker.api.Create(a.t.Context(), object))
}

// claim returns a claim that the attacker may create, with the class that SharedVolumes' claims have.
func (a arena) claim(name, volume string) *corev1.PersistentVolumeClaim {
	claim := foreignClaim(a.attacker.namespace, name)
	claim.Spec.StorageClassName, claim.Spec.VolumeName = new(""), volume
	return claim
}

// check checks the conditions that must hold after any attack.
func (a arena) check() {
	a.t.Helper()
	a.ready(a.stake)
	a.unchanged(a.held)
	var claims corev1.PersistentVolumeClaimList
	a.do("list", a.client.List(a.t.Context(), &claims, client.InNamespace(a.attacker.namespace)))
	for _, claim := range claims.Items {
		volume := &corev1.PersistentVolume{}
		if a.client.Get(a.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume) != nil || claim.Status.Phase != corev1.ClaimBound {
			continue
		}
		if handle := volume.Spec.CSI.VolumeHandle; strings.HasPrefix(handle, a.stake.Spec.FileSystemID+":") {
			a.t.Errorf("the attacker's claim %s is bound to %s", claim.Name, handle)
		}
	}
}
