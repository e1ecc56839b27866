package main

import "github.com/writ-os/writ/schema"

func param(in, name, typ, description string) object {
	p := object{"in": in, "name": name, "description": description, "schema": object{"type": typ, "uniqueItems": true}}
	if in == "path" {
		p["required"] = true
	}
	return p
}

func query(name, typ, description string) object { return param("query", name, typ, description) }

func pathParams(r *schema.Resource) []object {
	params := []object{query("pretty", "string", "If 'true', then the output is pretty printed.")}
	if r.Namespaced {
		params = append(params, param("path", "namespace", "string", "object name and auth scope, such as for teams and projects"))
	}
	return params
}

var (
	dryRun       = query("dryRun", "string", "When present, indicates that modifications should not be persisted. The only valid value is All: all dry run stages will be processed.")
	fieldManager = query("fieldManager", "string", "fieldManager is a name associated with the actor or entity that is making these changes. The value must be less than or equal to 128 characters long.")
	validation   = query("fieldValidation", "string", "fieldValidation instructs the server on how to handle objects in the request containing unknown or duplicate fields. Valid values are Ignore, Warn (the default) and Strict.")

	writeParams = []object{dryRun, fieldManager, validation}
	patchParams = []object{dryRun, fieldManager, validation,
		query("force", "boolean", "Force is going to \"force\" Apply requests. It means user will re-acquire conflicting fields owned by other people. Force flag must be unset for non-apply patch requests."),
	}
	deleteParams = []object{dryRun,
		query("gracePeriodSeconds", "integer", "The duration in seconds before the object should be deleted. Value must be non-negative integer. The value zero indicates delete immediately."),
		query("orphanDependents", "boolean", "Deprecated: please use the PropagationPolicy. Should the dependent objects be orphaned."),
		query("propagationPolicy", "string", "Whether and how garbage collection will be performed: 'Orphan', 'Background' or 'Foreground'."),
	}
	listParams = []object{
		query("allowWatchBookmarks", "boolean", "allowWatchBookmarks requests watch events with type \"BOOKMARK\"."),
		query("continue", "string", "The continue option should be set when retrieving more results from the server."),
		query("fieldSelector", "string", "A selector to restrict the list of returned objects by their fields. Defaults to everything."),
		query("labelSelector", "string", "A selector to restrict the list of returned objects by their labels. Defaults to everything."),
		query("limit", "integer", "limit is a maximum number of responses to return for a list call."),
		query("resourceVersion", "string", "resourceVersion sets a constraint on what resource versions a request may be served from."),
		query("resourceVersionMatch", "string", "resourceVersionMatch determines how resourceVersion is applied to list calls: Exact or NotOlderThan."),
		query("sendInitialEvents", "boolean", "`sendInitialEvents=true` may be set together with `watch=true`. The watch then begins with synthetic events for the objects that exist, followed by a \"Bookmark\" event."),
		query("timeoutSeconds", "integer", "Timeout for the list/watch call. This limits the duration of the call, regardless of any activity or inactivity."),
		query("watch", "boolean", "Watch for changes to the described resources and return them as a stream of add, update, and remove notifications. Specify resourceVersion."),
	}
)
