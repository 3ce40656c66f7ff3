package predecessor

import "slices"

// A Handover is how far a driver has got on its way from OLM to the cluster storage operator.
type Handover struct {
	Stage Stage
	// Message says what comes next, or why it does not go on, and what to do about that.
	Message string
	// Again reports that it can go on at once.
	Again bool
}

// Stage is a part of a hand-over.
type Stage string

// The stages.
const (
	// None: no hand-over is in progress.
	None Stage = ""
	// Removing: the operator of OLM is being removed.
	Removing Stage = "Removing"
	// Removed: nothing of it is left, and the cluster storage operator runs its own.
	Removed Stage = "Removed"
	// Declined: an administrator has decided otherwise. Nothing is written until that changes.
	Declined Stage = "Declined"
	// Refused: something is not as it has to be, and nothing was written.
	Refused Stage = "Refused"
	// Stuck: it was begun, and does not go on before somebody has put something right.
	Stuck Stage = "Stuck"
)

// The reasons of the condition Available of a driver, in the status of Storage, while the cluster storage operator waits for
// the operator of OLM to be gone.
const (
	// Reason: OLM runs an operator of the driver.
	Reason = "OperatorOfOLM"
	// ReasonRefused: that one is not removed, because something is not as it has to be.
	ReasonRefused = "HandOverRefused"
	// ReasonStuck: it was to be removed, and that does not go on.
	ReasonStuck = "HandOverStuck"
)

// Waits reports whether a condition with a reason says that the cluster storage operator waits for the operator of OLM.
func Waits(reason string) bool {
	return slices.Contains([]string{Reason, ReasonRefused, ReasonStuck}, reason)
}
