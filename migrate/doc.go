// Package migrate is the engine of migrations. It observes the cluster, shows a plan, executes it step by step,
// and keeps a journal in the cluster, so that an interrupted migration can be resumed or rolled back.
//
// A kind of migration has an Engine, which names it, and a Plan with its own facts and steps. The engine never trusts
// its memory: it observes, decides from the observed state which step is next, executes that one step, and observes
// again. So it makes no difference where it was killed, or how often it runs. Each write has the observed state as its
// precondition.
//
// The journal is a ConfigMap that holds the plan and the steps that were started. Anyone who can write a journal
// controls the migration, so journals are read only from a namespace that cluster administrators control, and even
// there each field is validated and compared with the request and the live objects.
//
// # How a migration goes
//
// berth switch is a migration: migrate/subscription adds its facts and steps to the engine.
//
//   - Plan (migrate/ensure.go): the migration observes the cluster and the catalogs, predicts with OLM's own resolver
//     what OLM will do (olm/prediction), and returns its checks and the objects that will change. The engine adds the
//     steps. Nothing is written.
//   - Run (migrate/run.go): the engine observes, decides on the next step, executes it, and observes again. The decision is a pure
//     function of the observed state (migrate/subscription/decide.go, rollback.go), so it makes no difference who executed a step.
//   - Complete (migrate/ensure.go, run.go): a complete migration is never reopened. Another run only checks whether its result is still in
//     place (State.Holds), and reports what was removed. It accepts versions that OLM has installed since
//     then (migrate/subscription/arrival.go).
//   - Journal (migrate/journal.go): a ConfigMap holds the plan. Once the migration has begun, nobody can make this plan again, and a
//     rollback needs nothing else.
//
// Anyone who can write a journal controls the next steps. Journals are therefore read only from kube-system, or from another namespace
// that an administrator names. Even there they are not trusted: every field is validated (read.go of the engine, validate.go of the
// migration), and before each write the plan is compared with the command line and with the live objects, which are identified by their
// UIDs (verify.go). While an operator is replaced, its Subscription does not exist for some seconds, and anyone who may write
// Subscriptions in the namespace could create another one with the same name. A nonce, recorded in the journal before the Subscription is
// recreated, identifies the right one (recreation.go). OLM asks for approval until the switch is complete, and an InstallPlan is approved
// only if it installs exactly the planned objects from the planned catalog (content.go).
//
// A new kind of migration needs a migrate.Engine value, a plan type that embeds migrate.Outline, and a type for its observed state.
// migrate/move_test.go is a complete example in 200 lines.
package migrate
