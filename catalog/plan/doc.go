// Package plan foretells what OLM will do with a Subscription, by OLM's own resolver.
package plan
