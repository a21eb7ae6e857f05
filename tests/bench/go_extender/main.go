// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: onprem.kube_scheduling contributors

// An extender as it is usually written in Go: net/http, encoding/json and the upstream types. Every node gets the same score.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

const score = 5

func prioritize(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if args.NodeNames == nil {
		http.Error(w, "NodeNames is missing: set nodeCacheCapable: true", http.StatusBadRequest)
		return
	}
	priorities := make(extenderv1.HostPriorityList, 0, len(*args.NodeNames))
	for _, name := range *args.NodeNames {
		priorities = append(priorities, extenderv1.HostPriority{Host: name, Score: score})
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(priorities); err != nil {
		log.Print(err)
	}
}

func main() {
	address := flag.String("listen", "127.0.0.1:8888", "address and port")
	flag.Parse()
	http.HandleFunc("POST /scheduler/prioritize", prioritize)
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	log.Fatal(http.ListenAndServe(*address, nil))
}
