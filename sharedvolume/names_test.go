package sharedvolume

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestClaimName(t *testing.T) {
	long := strings.Repeat("a", 249)
	for name, want := range map[string]string{
		"logs":     "pvc-logs",
		long:       "pvc-" + long,
		long + "b": "pvc-" + long[:238] + "-" + "ce59567850",
		strings.Repeat("a", 236) + strings.Repeat(".b", 8): "pvc-" + strings.Repeat("a", 236) + ".b-" + "822cbd8870",
	} {
		got := ClaimName(name)
		assert.EqualValuesf(t, want, got, "ClaimName(%q) =", name)
		assert.Emptyf(t, validation.IsDNS1123Subdomain(got), "ClaimName(%q) is no name of an object", name)
	}
	assert.NotEqual(t, ClaimName(long+"b"), ClaimName(long+"c"), "the claims of two long names")
}

// TestOwnerRoundTrip: an object leads to the SharedVolume that it belongs to, however long its name is.
func TestOwnerRoundTrip(t *testing.T) {
	for _, name := range []string{"logs", strings.Repeat("n", 63), strings.Repeat("n", 64), strings.Repeat("n.", 126) + "n"} {
		sv := example()
		sv.Name = name
		labels, annotations := ownerMeta(sv)
		for key, value := range labels {
			assert.Emptyf(t, validation.IsValidLabelValue(value), "label %s=%s", key, value)
		}
		got := ownerOf(&metav1.ObjectMeta{Labels: labels, Annotations: annotations})
		assert.Equal(t, types.NamespacedName{Namespace: sv.Namespace, Name: name}, got, "owner")
	}
}

func TestMounts(t *testing.T) {
	spec := example().Spec
	for _, test := range []struct {
		handle  string
		options []string
		want    bool
	}{
		{"fs-01::fsap-02", nil, true},
		{"fs-01::fsap-02", []string{"tls"}, true},
		{"fs-01", []string{"tls", "accesspoint=fsap-02"}, true},
		{"fs-01", []string{"accesspoint=fsap-03"}, false},
		{"fs-01", nil, false},
		{"fs-01:/:fsap-02", nil, false},
		{"fs-02::fsap-02", nil, false},
		{"fs-02", []string{"accesspoint=fsap-02"}, false},
		{"", nil, false},
	} {
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			MountOptions:           test.options,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: test.handle}},
		}}
		assert.Equalf(t, test.want, mounts(volume, spec), "%q with options %v", test.handle, test.options)
	}
}

func TestOwnerOfClaimIgnoresForgedLabels(t *testing.T) {
	claim := desiredClaim(example())
	require.Len(t, ownerOfClaim(t.Context(), claim), 1, "what our own claim maps to")
	forged := claim.DeepCopy()
	forged.Namespace = "elsewhere"
	assert.Nil(t, ownerOfClaim(t.Context(), forged), "what a claim of another namespace maps to")
	forged = claim.DeepCopy()
	forged.Name = "pvc-other"
	assert.Nil(t, ownerOfClaim(t.Context(), forged), "what a claim of another name maps to")
}

func TestDesiredClaimProvesItsOwner(t *testing.T) {
	sv, other := example(), example()
	other.UID = "another-uid"
	claim := desiredClaim(sv)
	claim.Labels = nil // Anybody may take labels away.
	got := map[string]bool{"its own": ownsClaim(sv, claim), "another's": ownsClaim(other, claim)}
	assert.Empty(t, cmp.Diff(map[string]bool{"its own": true, "another's": false}, got))
}
