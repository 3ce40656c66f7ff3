package sharedvolume

var (
	// CacheOptions are the options of the controller's caches.
	CacheOptions = cacheOptions
	// TrimmedLists lists objects for them.
	TrimmedLists = newTrimmedLists
)
