package controllers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
)

// TestLimitClasses: a backend that offers something else each time it is asked gets a limited number of StorageClasses in all.
func TestLimitClasses(t *testing.T) {
	driver := drivers.Driver{Backend: &drivers.Backend{Name: "Manila", Kind: "share type", Secret: "credentials"}}
	offer := func(from, to int) []drivers.Manifest {
		var classes []storagev1.StorageClass
		for i := from; i < to; i++ {
			classes = append(classes, storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%03d", i)}})
		}
		made, err := classManifests(driver, classes)
		require.NoError(t, err)
		return made
	}
	var known []drivers.Manifest
	for _, step := range []struct {
		from, to, kept, known int
		leftOut               string
	}{
		{0, 150, 150, 150, ""},
		{0, 150, 150, 150, ""},
		{140, 210, 60, 200, "10 more share types get no StorageClass, such as class-200: the operator makes at most 200 classes. " +
			"Check that the Secret credentials names the right cloud, and make StorageClasses by hand."},
		{300, 400, 0, 200, "100 more share types get no StorageClass, such as class-300: the operator makes at most 200 classes. " +
			"Check that the Secret credentials names the right cloud, and make StorageClasses by hand."},
	} {
		kept, leftOut := limitClasses(driver.Backend, offer(step.from, step.to), known)
		known = MergeClasses(known, kept)
		assert.Equal(t, step.kept, len(kept), "classes that are kept") // assert.Len would print them all
		assert.Equal(t, step.known, len(known), "classes in all")
		assert.Equal(t, step.leftOut, leftOut)
	}
}
