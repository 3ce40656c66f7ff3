package sharedvolume_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// knownAccessPoints knows the access points that a test sets.
type knownAccessPoints struct {
	changed chan struct{}

	mu      sync.Mutex
	present map[string]bool // by "file system/access point"
	asked   map[string]int  // how often somebody wanted to know about them
	users   map[string]bool
}

func (k *knownAccessPoints) Find(user, fileSystem, accessPoint string) (present bool, reason, message string, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := fileSystem + "/" + accessPoint
	k.asked[name]++
	k.users[user] = true
	present, known = k.present[name]
	if present {
		return present, "Found", "It is there.", known
	}
	return present, "AccessPointNotFound", "It is not there.", known
}

func (k *knownAccessPoints) Release(user string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.users, user)
}

func (k *knownAccessPoints) Changed() <-chan struct{} { return k.changed }

// set makes an access point known.
func (k *knownAccessPoints) set(name string, present bool) {
	k.mu.Lock()
	k.present[name] = present
	k.mu.Unlock()
	k.changed <- struct{}{}
}

// TestFileSystemAvailable: the status of a SharedVolume follows the known state of its access point. Access points
// without a grant for the namespace are never looked up.
func TestFileSystemAvailable(t *testing.T) {
	env := isolated(t)
	namespace := env.keptNamespace()
	known := &knownAccessPoints{changed: make(chan struct{}), present: map[string]bool{}, asked: map[string]int{}, users: map[string]bool{}}
	env.runWith(confined(isolatedConfig, namespace), sharedvolume.Options{AccessPoints: known})
	env.granted(namespace)
	sv := env.create(namespace, "website")
	name := sv.Spec.FileSystemID + "/" + sv.Spec.AccessPointID
	stranger := volumeOf(namespace, "curious", "fs-0fedcba9876543210", "fsap-0fedcba9876543210")
	env.do("create", env.client.Create(t.Context(), stranger))
	env.ready(sv)
	env.until(stranger, "NotGranted")

	env.available(sv, "")
	known.set(name, false)
	env.available(sv, "False AccessPointNotFound It is not there.")
	known.set(name, true)
	env.available(sv, "True Found It is there.")

	// Without a grant, nobody may know it any more.
	grant := &v1alpha1.SharedVolumeGrant{}
	env.get(grant, "", namespace)
	env.do("withdraw the grant", env.client.Patch(t.Context(), grant, patch(`{"spec":{"fileSystems":[]}}`)))
	env.available(sv, "")
	known.mu.Lock()
	defer known.mu.Unlock()
	assert.False(t, known.users[namespace+"/website"], "the SharedVolume is still a user of the access point")
	for asked := range known.asked {
		assert.Equal(t, name, asked, "what somebody asked for, which was granted")
	}
}

// available waits until the condition about AWS has a status, a reason and a message, or until it is absent.
func (env testEnv) available(sv *v1alpha1.SharedVolume, want string) {
	env.t.Helper()
	env.eventually("the condition to be "+want, sv, func() error {
		got := ""
		if c := meta.FindStatusCondition(sv.Status.Conditions, v1alpha1.ConditionFileSystemAvailable); c != nil {
			got = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
		if got != want {
			return fmt.Errorf("%s has %q", client.ObjectKeyFromObject(sv), got)
		}
		return nil
	})
}
