package efs

import (
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// VolumeMetrics say whether and how often the driver measures how full volumes are.
type VolumeMetrics struct {
	On      bool
	Refresh time.Duration
	// AtOnce is how many volumes of a file system are measured at the same time.
	AtOnce int
}

// measurements are how full volumes were.
type measurements struct {
	options VolumeMetrics

	mu       sync.Mutex
	measured map[string]measured // by volume
	underWay map[string]bool     // volumes
	busy     map[string]int      // by file system
}

type measured struct {
	at    time.Time
	usage *csi.VolumeUsage
}

func newMeasurements(options VolumeMetrics) *measurements {
	return &measurements{options: options, measured: map[string]measured{}, underWay: map[string]bool{}, busy: map[string]int{}}
}

// of returns how full a volume was, or that this is not known yet. If the last measurement is old, it starts another one.
func (m *measurements) of(volume, fileSystem, folder string) *csi.VolumeUsage {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.measured[volume]
	if (!known || time.Since(last.at) > m.options.Refresh) && !m.underWay[volume] && m.busy[fileSystem] < m.options.AtOnce {
		m.underWay[volume] = true
		m.busy[fileSystem]++
		go m.measure(volume, fileSystem, folder)
	}
	if !known {
		return &csi.VolumeUsage{Unit: csi.VolumeUsage_UNKNOWN}
	}
	return last.usage
}

func (m *measurements) measure(volume, fileSystem, folder string) {
	usage, err := usageOf(folder)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.underWay, volume)
	m.busy[fileSystem]--
	if err != nil {
		klog.Errorf("Failed to compute volume usage on path %s: %v", folder, err)
		return
	}
	m.measured[volume] = measured{time.Now(), usage}
}

// forget forgets how full a volume was.
func (m *measurements) forget(volume string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.measured, volume)
}

// usageOf adds up the disk usage of a folder's files, as "du" does.
func usageOf(folder string) (*csi.VolumeUsage, error) {
	const block = 512 // bytes, of st_blocks
	used := int64(0)
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := entry.Info(); err == nil {
			used += info.Sys().(*syscall.Stat_t).Blocks * block
		}
		return nil
	})
	var whole unix.Statfs_t
	if err == nil {
		err = unix.Statfs(folder, &whole)
	}
	return &csi.VolumeUsage{Unit: csi.VolumeUsage_BYTES, Used: used, Available: int64(whole.Bavail) * whole.Bsize, Total: int64(whole.Blocks) * whole.Bsize}, err
}
