{{- define "lynxbench.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "lynxbench.labels" -}}
app.kubernetes.io/name: lynxbench
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "lynxbench.places" -}}
- {name: LYNXBENCH_HOME, value: /data}
- {name: LYNXBENCH_BLOBS, value: /data/blobs}
- {name: PGPASSFILE, value: /private/pgpass}
- name: LYNXBENCH_LEDGER
  value: {{ .Values.ledger | quote }}
{{- end -}}
