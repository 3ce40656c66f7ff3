package sharedvolume

// CacheOptions are those of the controller's caches.
var CacheOptions = cacheOptions
