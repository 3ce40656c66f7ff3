package predecessor

import "slices"

// A Handover is the state of a driver's hand-over from OLM to the cluster storage operator.
type Handover struct {
	Stage Stage
	// Message says what comes next, or why the hand-over does not continue and what to do about it.
	Message string
	// Again says that the next step can follow at once.
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
	// Removed: nothing of that operator is left, and the cluster storage operator runs its own operator of the driver.
	Removed Stage = "Removed"
	// Declined: an administrator has decided otherwise. Nothing is written until that changes.
	Declined Stage = "Declined"
	// Refused: a precondition is not met, and nothing was written.
	Refused Stage = "Refused"
	// Stuck: the hand-over has begun, but does not continue until an administrator has fixed a problem.
	Stuck Stage = "Stuck"
)

// Reasons of a driver's condition Available, in the status of Storage, while the cluster storage operator waits until
// OLM's operator is gone.
const (
	// Reason: OLM runs an operator of the driver.
	Reason = "OperatorOfOLM"
	// ReasonRefused: OLM's operator is not removed, because a precondition is not met.
	ReasonRefused = "HandOverRefused"
	// ReasonStuck: the removal of OLM's operator has begun, but does not continue.
	ReasonStuck = "HandOverStuck"
)

// Waits reports whether a condition with this reason says that the cluster storage operator waits for OLM's operator.
func Waits(reason string) bool {
	return slices.Contains([]string{Reason, ReasonRefused, ReasonStuck}, reason)
}
