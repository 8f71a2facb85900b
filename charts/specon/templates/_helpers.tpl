{{- define "specon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for the longest suffix to stay within 63 characters. */}}
{{- define "specon.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "specon.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "specon.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Cluster-wide names: two releases in two namespaces may have the same name. */}}
{{- define "specon.clusterName" -}}
{{- if eq .Release.Namespace (include "specon.fullname" .) -}}
{{- include "specon.fullname" . -}}
{{- else -}}
{{- printf "%s-%s" .Release.Namespace (include "specon.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "specon.selectorLabels" -}}
app.kubernetes.io/name: {{ include "specon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: manager
{{- end -}}

{{- define "specon.labels" -}}
{{ include "specon.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: specon
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "specon.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "specon.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "specon.certificateSecretName" -}}
{{- default (printf "%s-certificates" (include "specon.fullname" .)) .Values.webhook.certificates.secretName -}}
{{- end -}}

{{- define "specon.placeholderPriorityClassName" -}}
{{- default (printf "%s-placeholder" (include "specon.clusterName" .)) .Values.placeholders.priorityClass.name -}}
{{- end -}}

{{- define "specon.guardPriorityClassName" -}}
{{- default (printf "%s-guard" (include "specon.clusterName" .)) .Values.placeholders.guardPriorityClass.name -}}
{{- end -}}

{{/*
One image: (dict "image" VALUES "registry" REGISTRY "version" VERSION). A repository with a slash is a whole name. There is
no registry in values that `--reuse-values` keeps from a chart that had none.
*/}}
{{- define "specon.image" -}}
{{- $name := .image.repository -}}
{{- if and .registry (not (contains "/" $name)) -}}
{{- $name = printf "%s/%s" .registry $name -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .version .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Read in every namespace: each pod takes room on its node, no matter who made it. */}}
{{- define "specon.readRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [{{ if .Values.interception.enabled }}get, {{ end }}list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [get]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [list, watch]
- apiGroups: [kubeflow.org]
  resources: [tfjobs, pytorchjobs, mpijobs]
  verbs: [get, list, watch]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [get, list, watch]
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [get, list, watch]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [get, list, watch]
- apiGroups: [specon.io]
  resources: [trainingprogresses]
  verbs: [list]
- apiGroups: [specon.io]
  resources: [migrations, trainingjobs]
  verbs: [get, list, watch]
- apiGroups: [specon.io]
  resources: [trainingqueues]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
- apiGroups: [metrics.k8s.io]
  resources: [nodes]
  verbs: [list]
{{- end -}}

{{/* Permissions in the namespaces whose pods are managed. */}}
{{- define "specon.managedRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [create, patch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- if .Values.settings.hold_room }}
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
{{- end }}
{{- if .Values.settings.log_streams }}
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list{{ if .Values.interception.enabled }}, watch{{ end }}]
{{- if .Values.settings.reweight }}
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
{{- end }}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [patch]
- apiGroups: [kubeflow.org]
  resources: [tfjobs, pytorchjobs, mpijobs]
  verbs: [patch]
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs]
  verbs: [patch]
{{- if .Values.settings.train_job_status }}
- apiGroups: [trainer.kubeflow.org]
  resources: [trainjobs/status]
  verbs: [patch]
{{- end }}
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [patch]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [patch]
- apiGroups: [specon.io]
  resources: [trainingprogresses, migrations, trainingjobs]
  verbs: [create, delete]
- apiGroups: [specon.io]
  resources: [trainingjobs]
  verbs: [patch]
- apiGroups: [specon.io]
  resources: [trainingprogresses/status]
  verbs: [patch]
- apiGroups: [specon.io]
  resources: [migrations/status]
  verbs: [update, patch]
- apiGroups: [specon.io]
  resources: [trainingjobs/status]
  verbs: [update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- if has "priority-boost" .Values.settings.signals }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, patch]
{{- end }}
{{- if .Values.kueue.moves.enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, patch]
{{- end }}
{{- end -}}
