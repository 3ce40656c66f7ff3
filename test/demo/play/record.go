package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/journey"
)

// record is the objects that existed before the switch: their UIDs, by kind. It is stored in the cluster, so that an
// interrupted demonstration can continue, and a finished one be shown again.
type record map[string]string

// recordKey identifies the ConfigMap with the record.
var recordKey = client.ObjectKey{Namespace: "default", Name: "before-the-switch"}

// save records all objects of the kinds.
func save(ctx context.Context, c client.Client, kinds []community.Kind) error {
	seen := record{}
	for _, kind := range kinds {
		objects, err := kind.Objects(ctx, c)
		if err != nil {
			return err
		}
		for _, object := range objects {
			seen[string(object.GetUID())] = kind.Name
		}
	}
	return journey.Ensure(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: recordKey.Namespace, Name: recordKey.Name}, Data: seen})
}

// readRecord returns the record, or nil if there is none.
func readRecord(ctx context.Context, c client.Client) (record, error) {
	kept := &corev1.ConfigMap{}
	err := c.Get(ctx, recordKey, kept)
	return kept.Data, client.IgnoreNotFound(err)
}

// compare says whether all recorded objects of a kind still exist and work.
func (m record) compare(ctx context.Context, c client.Client, kind community.Kind) (string, error) {
	objects, err := kind.Objects(ctx, c)
	if err != nil {
		return "", err
	}
	same, names := 0, []string{}
	for _, object := range objects {
		if m[string(object.GetUID())] != kind.Name {
			continue // created later
		}
		if err := kind.Trouble(object); err != nil {
			return "", err
		}
		same++
		names = append(names, object.GetName())
	}
	were := 0
	for _, name := range m {
		if name == kind.Name {
			were++
		}
	}
	if same != were {
		return "", fmt.Errorf("of %d before, only %d are left: %s", were, same, strings.Join(names, ", "))
	}
	return fmt.Sprintf("same UID as before: %d of %d, %s", same, were, kind.Good), nil
}
