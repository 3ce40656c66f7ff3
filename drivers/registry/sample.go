//go:build sample

package registry

import "github.com/berth-csi/berth/drivers/sample"

func init() { all = append(all, sample.Driver) }
