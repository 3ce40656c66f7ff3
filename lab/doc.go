// Package lab has no code. The folders in it are a product of their own inside this repository: a cluster without containers, with OLM,
// real nodes, fake clouds that speak the real protocols, and faults, for tests of programs that run in clusters. They import nothing of
// Berth, so they could move to a repository of their own in one commit. See README.md.
package lab
