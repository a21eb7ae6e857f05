// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: onprem.kube_scheduling contributors

// An extender as it is usually written in Go: net/http, encoding/json and the upstream types. Every node gets the same score.
// With -prometheus it sends a query for each node of each request, as the Score plugin of cylonchau/customScheduler does.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const constantScore = 5

// scorer returns the scores of the nodes with these names, in their order.
type scorer func(names []string) ([]int64, error)

func constantScores(names []string) ([]int64, error) {
	scores := make([]int64, len(names))
	for index := range scores {
		scores[index] = constantScore
	}
	return scores, nil
}

func prioritize(scores scorer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if args.NodeNames == nil {
			http.Error(w, "NodeNames is missing: set nodeCacheCapable: true", http.StatusBadRequest)
			return
		}
		found, err := scores(*args.NodeNames)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		priorities := make(extenderv1.HostPriorityList, 0, len(*args.NodeNames))
		for index, name := range *args.NodeNames {
			priorities = append(priorities, extenderv1.HostPriority{Host: name, Score: found[index]})
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(priorities); err != nil {
			log.Print(err)
		}
	}
}

func main() {
	address := flag.String("listen", "127.0.0.1:8888", "address and port")
	prometheus := flag.String("prometheus", "", "URL of the Prometheus to ask for each node")
	device := flag.String("device", "eth0", "network device, with -prometheus")
	parallelism := flag.Int("parallelism", 16, "queries that are sent at the same time, with -prometheus")
	flag.Parse()
	scores := constantScores
	if *prometheus != "" {
		scores = newTraffic(*prometheus, *device, *parallelism).scores
	}
	http.HandleFunc("POST /scheduler/prioritize", prioritize(scores))
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	log.Fatal(http.ListenAndServe(*address, nil))
}
