package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/journey"
)

// record lists the objects from before the migration. It is stored in the cluster, so that an interrupted demonstration
// can continue, and a finished one be shown again.
type record struct {
	at     time.Time
	kinds  map[string]string // of objects, by their UIDs
	mounts map[string]string // of writers, by their names
}

// recordKey identifies the ConfigMap with the record. It has an entry for each object, by its UID, and one for each writer,
// by its name with the prefix.
var recordKey = client.ObjectKey{Namespace: "default", Name: "before-the-migration"}

const mountPrefix = "mount."

// save records all objects of the kinds, and the writers' mounts.
func save(ctx context.Context, c client.Client, kinds []community.Kind, mounts map[string]string) error {
	entries := map[string]string{}
	for _, kind := range kinds {
		objects, err := kind.Objects(ctx, c)
		if err != nil {
			return err
		}
		for _, object := range objects {
			entries[string(object.GetUID())] = kind.Name
		}
	}
	for writer, mount := range mounts {
		entries[mountPrefix+writer] = mount
	}
	return journey.Ensure(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: recordKey.Namespace, Name: recordKey.Name}, Data: entries})
}

// readRecord returns the record, or nil if it does not exist.
func readRecord(ctx context.Context, c client.Client) (*record, error) {
	stored := &corev1.ConfigMap{}
	if err := c.Get(ctx, recordKey, stored); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	r := &record{at: stored.CreationTimestamp.Time, kinds: map[string]string{}, mounts: map[string]string{}}
	for key, value := range stored.Data {
		if writer, found := strings.CutPrefix(key, mountPrefix); found {
			r.mounts[writer] = value
		} else {
			r.kinds[key] = value
		}
	}
	return r, nil
}

// compare says whether all recorded objects of a kind still exist and work.
func (r *record) compare(ctx context.Context, c client.Client, kind community.Kind) (string, error) {
	objects, err := kind.Objects(ctx, c)
	if err != nil {
		return "", err
	}
	same, names := 0, []string{}
	for _, object := range objects {
		if r.kinds[string(object.GetUID())] != kind.Name {
			continue // created later
		}
		if err := kind.Trouble(object); err != nil {
			return "", err
		}
		same++
		names = append(names, object.GetName())
	}
	were := 0
	for _, name := range r.kinds {
		if name == kind.Name {
			were++
		}
	}
	if same != were {
		return "", fmt.Errorf("of %d before, only %d are left: %s", were, same, strings.Join(names, ", "))
	}
	return fmt.Sprintf("same UID as before: %d of %d, %s", same, were, kind.Good), nil
}
