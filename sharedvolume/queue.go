package sharedvolume

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue returns a queue of requests that serves namespaces in turn, so that thousands of requests
// about one of them make none about another wait.
func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: &roundRobin{}})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: queue})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name, DelayingQueue: delaying})
}

// inTurn holds requests: those of one namespace in the order in which they came, and one of each
// namespace in turn. It is what a workqueue keeps its items in, which looks after duplicates and locks.
type roundRobin struct {
	// namespaces are those with requests, the next to be served first.
	namespaces fifo[*requests]
	byName     map[string]*requests
	length     int
}

// requests are those of one namespace.
type requests struct {
	namespace string
	fifo[reconcile.Request]
}

var _ workqueue.Queue[reconcile.Request] = &roundRobin{}

// Touch is told of a request that is in the queue already; it keeps its place.
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

// fifo is a list from which what came first goes first.
type fifo[T any] []T

func (f *fifo[T]) push(item T) { *f = append(*f, item) }

func (f *fifo[T]) pop() T {
	var none T
	first := (*f)[0]
	(*f)[0] = none // The array behind may live on for long, and should hold nothing.
	*f = (*f)[1:]
	return first
}
