// Package controllers lists the drivers' code besides their definitions. Only the operator imports it, because it links
// the libraries of clouds. The list is generated from the folders drivers/NAME/controller.
package controllers

import "github.com/berth-csi/berth/drivers/controller"

//go:generate go run ../../../hack/registry -drivers ../.. -controllers -output zz_generated.controllers.go

// Of returns a driver's code besides its definition; the zero value if the driver has no folder controller.
func Of(driver string) controller.Own {
	if bring, ok := all[driver]; ok {
		return bring()
	}
	return controller.Own{}
}
