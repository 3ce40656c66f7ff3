package sharedvolume

var (
	// CacheOptions are those of the controller's caches.
	CacheOptions = cacheOptions
	// TrimmedLists is where these get lists from.
	TrimmedLists = newTrimmedLists
)
