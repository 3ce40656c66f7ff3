package drivers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// operatorFields are the fields of a ClusterCSIDriver's spec that the operator honors for each driver.
var operatorFields = []string{"managementState", "logLevel", "operatorLogLevel", "observedConfig", "storageClassState"}

// ConfigFields says which fields a driver honors in spec.driverConfig of its ClusterCSIDriver.
type ConfigFields struct {
	// Type is the driver's driverType; "" if the API has none for it.
	Type operatorv1.CSIDriverType
	// Fields are paths below spec.driverConfig, such as "aws.kmsKeyARN". A path includes everything below it.
	Fields []string
}

// withoutEffect returns a sentence that names the fields of the ClusterCSIDriver that are set although neither the driver nor its
// operator reads them. The API has the fields of all drivers in one type, so the API server accepts them for every driver.
func (d Driver) withoutEffect(custom *operatorv1.ClusterCSIDriver) []string {
	var spec map[string]any
	document, err := json.Marshal(custom.Spec)
	if err == nil {
		err = json.Unmarshal(document, &spec)
	}
	if err != nil {
		return []string{fmt.Sprintf("The spec of ClusterCSIDriver %s cannot be read: %v.", d.CSIName, err)}
	}
	config, _ := spec["driverConfig"].(map[string]any)
	delete(spec, "driverConfig")
	if config["driverType"] == string(d.ConfigFields.Type) {
		delete(config, "driverType")
	}
	fields := slices.Concat(unread("spec.", spec, operatorFields, false), unread("spec.driverConfig.", config, d.ConfigFields.Fields, true))
	if len(fields) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("ClusterCSIDriver %s sets fields that have no effect for this driver: %s. Remove them.",
		d.CSIName, strings.Join(fields, ", "))}
}

// unread returns the paths of set fields that are not known. If deep is set, it also checks the fields of objects.
func unread(prefix string, fields map[string]any, known []string, deep bool) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		object, isObject := value.(map[string]any)
		switch {
		case slices.Contains(known, name), value == nil, value == "", isObject && len(object) == 0:
		case isObject && deep:
			var below []string
			for _, path := range known {
				if rest, ok := strings.CutPrefix(path, name+"."); ok {
					below = append(below, rest)
				}
			}
			found = append(found, unread(prefix+name+".", object, below, true)...)
		default:
			found = append(found, prefix+name)
		}
	}
	return found
}
