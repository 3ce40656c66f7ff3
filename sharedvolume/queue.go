package sharedvolume

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue returns a work queue that serves namespaces round-robin, so that a request for one namespace never waits for
// thousands of another.
func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: &roundRobin{}})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: queue})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name, DelayingQueue: delaying})
}

// roundRobin stores the requests of a work queue: it returns one request of each namespace in turn, and the requests of
// one namespace in the order they were added. The work queue handles duplicates and locking.
type roundRobin struct {
	// namespaces are the namespaces with requests, the next one first.
	namespaces fifo[*requests]
	byName     map[string]*requests
	length     int
}

// requests are the requests of one namespace.
type requests struct {
	namespace string
	fifo[reconcile.Request]
}

var _ workqueue.Queue[reconcile.Request] = &roundRobin{}

// Touch is called for a request that is in the queue already; the request keeps its position.
func (q *roundRobin) Touch(reconcile.Request) {}

func (q *roundRobin) Push(request reconcile.Request) {
	of := q.byName[request.Namespace]
	if of == nil {
		if q.byName == nil {
			q.byName = map[string]*requests{}
		}
		of = &requests{namespace: request.Namespace}
		q.byName[request.Namespace] = of
		q.namespaces.push(of)
	}
	of.push(request)
	q.length++
}

func (q *roundRobin) Len() int { return q.length }

func (q *roundRobin) Pop() reconcile.Request {
	of := q.namespaces.pop()
	request := of.pop()
	q.length--
	if len(of.fifo) > 0 {
		q.namespaces.push(of)
	} else {
		delete(q.byName, of.namespace)
	}
	return request
}

// fifo is a first-in, first-out queue.
type fifo[T any] []T

func (f *fifo[T]) push(item T) { *f = append(*f, item) }

func (f *fifo[T]) pop() T {
	var none T
	first := (*f)[0]
	(*f)[0] = none // so that the underlying array does not keep it in memory
	*f = (*f)[1:]
	return first
}
