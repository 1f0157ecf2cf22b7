-- Revision 0022. Written by scripts/schema.py from the migrations. Do not edit.
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE skills (
	id TEXT NOT NULL, 
	organization_id TEXT, 
	user_id TEXT, 
	scope TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT NOT NULL, 
	version TEXT NOT NULL, 
	tags JSON NOT NULL, 
	source TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	kinds JSON NOT NULL, 
	form TEXT NOT NULL, 
	author TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	enabled BOOLEAN DEFAULT 1 NOT NULL, 
	intent_patterns JSON NOT NULL, 
	trigger_phrases JSON NOT NULL, 
	marketplace_id TEXT, 
	sync_etag TEXT, 
	source_type TEXT NOT NULL, 
	source_url TEXT, 
	source_ref TEXT, 
	source_id TEXT, 
	content_length INTEGER NOT NULL, 
	content_hash TEXT NOT NULL, 
	package TEXT NOT NULL, 
	manifest JSON NOT NULL, 
	details JSON NOT NULL, 
	content TEXT NOT NULL, reader TEXT DEFAULT '0' NOT NULL, seal TEXT DEFAULT '' NOT NULL, people_only BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_skills PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_skills_tenant_slug ON skills (coalesce(organization_id, ''), coalesce(user_id, ''), scope, slug);
CREATE TABLE skill_artifacts (
	id TEXT NOT NULL, 
	skill_id TEXT NOT NULL, 
	organization_id TEXT, 
	user_id TEXT, 
	scope TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	ordinal INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	model_variant TEXT, 
	path TEXT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	metadata JSON NOT NULL, 
	details JSON NOT NULL, 
	content TEXT NOT NULL, 
	state_blob BLOB, 
	CONSTRAINT pk_skill_artifacts PRIMARY KEY (id), 
	CONSTRAINT fk_skill_artifacts_skill_id FOREIGN KEY(skill_id) REFERENCES skills (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_skill_artifacts_name_variant ON skill_artifacts (skill_id, name, coalesce(model_variant, ''));
CREATE TABLE skill_versions (
	id TEXT NOT NULL, 
	organization_id TEXT, 
	user_id TEXT, 
	scope TEXT NOT NULL, 
	place TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	digest TEXT NOT NULL, 
	change TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	note TEXT NOT NULL, 
	form TEXT NOT NULL, 
	package TEXT NOT NULL, 
	manifest JSON NOT NULL, feed BIGINT DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_skill_versions PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_skill_versions_tenant_slug_number ON skill_versions (coalesce(organization_id, ''), coalesce(user_id, ''), scope, place, slug, number);
CREATE TABLE skill_blobs (
	sha256 TEXT NOT NULL, 
	size INTEGER NOT NULL, 
	content BLOB NOT NULL, 
	CONSTRAINT pk_skill_blobs PRIMARY KEY (sha256)
);
CREATE INDEX ix_skill_versions_tenant_feed ON skill_versions (coalesce(organization_id, ''), coalesce(user_id, ''), scope, place, feed);
CREATE TABLE sessions (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	conversation_id TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	actor_kind TEXT NOT NULL, 
	role TEXT NOT NULL, 
	model TEXT NOT NULL, 
	context_window INTEGER, 
	budget_max INTEGER NOT NULL, 
	budget_used INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	closed_at TEXT, 
	CONSTRAINT pk_sessions PRIMARY KEY (id)
);
CREATE INDEX ix_sessions_owner_updated ON sessions (organization_id, user_id, updated_at);
CREATE TABLE session_skills (
	session_id TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	title TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	source_type TEXT NOT NULL, 
	origin TEXT NOT NULL, 
	content_length INTEGER NOT NULL, 
	enabled_at TEXT NOT NULL, 
	detail JSON NOT NULL, 
	content TEXT NOT NULL, seal TEXT DEFAULT '' NOT NULL, 
	CONSTRAINT pk_session_skills PRIMARY KEY (session_id, slug), 
	CONSTRAINT fk_session_skills_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE TABLE approvals (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	action TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	requester TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	state TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	resolved_at TEXT, 
	resolver TEXT, 
	note TEXT NOT NULL, 
	used_at TEXT, 
	detail JSON NOT NULL, 
	CONSTRAINT pk_approvals PRIMARY KEY (id)
);
CREATE INDEX ix_approvals_organization_state ON approvals (organization_id, state, created_at);
CREATE INDEX ix_approvals_subject ON approvals (organization_id, user_id, requester, slug, digest);
CREATE TABLE audit (
	organization_id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	at TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	detail JSON NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	CONSTRAINT pk_audit PRIMARY KEY (organization_id, number)
);
CREATE TABLE events (
	organization_id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	at TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	source TEXT NOT NULL, 
	seconds FLOAT, 
	data JSON NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (organization_id, number)
);
CREATE INDEX ix_events_subject ON events (organization_id, name, subject, at, seconds);
CREATE TABLE org_settings (
	organization_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value JSON NOT NULL, 
	updated_at TEXT NOT NULL, 
	updated_by TEXT NOT NULL, 
	CONSTRAINT pk_org_settings PRIMARY KEY (organization_id, name)
);
CREATE TABLE skill_execution_traces (
	id TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	session_id TEXT NOT NULL, 
	skill_id TEXT NOT NULL, 
	skill_slug TEXT NOT NULL, 
	skill_digest TEXT NOT NULL, 
	artifact_id TEXT NOT NULL, 
	artifact_name TEXT NOT NULL, 
	artifact_kind TEXT NOT NULL, 
	fallback_of TEXT, 
	status TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	deadline_at TEXT NOT NULL, 
	process TEXT NOT NULL, 
	completed_at TEXT, 
	duration_ms INTEGER, 
	model_id TEXT, 
	input_tokens INTEGER, 
	output_tokens INTEGER, 
	estimated_cost FLOAT, 
	assertions_run INTEGER NOT NULL, 
	assertions_passed INTEGER NOT NULL, 
	error_code TEXT, 
	created_at TEXT NOT NULL, 
	error TEXT, 
	verdicts JSON NOT NULL, 
	detail JSON NOT NULL, 
	inputs JSON NOT NULL, 
	rendered_input TEXT, 
	raw_output TEXT, 
	CONSTRAINT pk_skill_execution_traces PRIMARY KEY (id)
);
CREATE INDEX idx_traces_session_id ON skill_execution_traces (session_id);
CREATE INDEX idx_traces_skill_id ON skill_execution_traces (skill_id);
CREATE INDEX idx_traces_artifact_id ON skill_execution_traces (artifact_id);
CREATE INDEX ix_traces_organization_started ON skill_execution_traces (organization_id, started_at);
CREATE INDEX ix_traces_owner_started ON skill_execution_traces (organization_id, user_id, started_at);
CREATE INDEX ix_traces_running ON skill_execution_traces (deadline_at) WHERE status = 'running';
CREATE TABLE spend (
	organization_id TEXT NOT NULL, 
	purse TEXT NOT NULL, 
	amount FLOAT NOT NULL, 
	updated_at TEXT NOT NULL, 
	CONSTRAINT pk_spend PRIMARY KEY (organization_id, purse)
);
CREATE TABLE registry_entries (
	organization_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	entry_id TEXT NOT NULL, 
	version TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	content TEXT NOT NULL, digest TEXT DEFAULT '' NOT NULL, 
	CONSTRAINT pk_registry_entries PRIMARY KEY (organization_id, kind, entry_id, version)
);
CREATE TABLE run_checkpoints (
	trace_id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	skill_slug TEXT NOT NULL, 
	skill_digest TEXT NOT NULL, 
	artifact_name TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	following JSON NOT NULL, 
	seed TEXT NOT NULL, 
	journal BLOB NOT NULL, 
	CONSTRAINT pk_run_checkpoints PRIMARY KEY (trace_id)
);
CREATE INDEX ix_run_checkpoints_created ON run_checkpoints (created_at);
CREATE UNIQUE INDEX uq_sessions_actor_conversation ON sessions (organization_id, user_id, actor, conversation_id);
CREATE TABLE installation (
	id TEXT NOT NULL, 
	seal TEXT NOT NULL, 
	CONSTRAINT pk_installation PRIMARY KEY (id)
);
CREATE TABLE skill_acceptances (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	origin TEXT NOT NULL, 
	hides TEXT NOT NULL, 
	sends_out BOOLEAN NOT NULL, 
	how TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	proof TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	revoked_at TEXT, 
	revoked_by TEXT, 
	detail JSON NOT NULL, 
	CONSTRAINT pk_skill_acceptances PRIMARY KEY (id)
);
CREATE INDEX ix_skill_acceptances_subject ON skill_acceptances (organization_id, slug, digest);
CREATE TABLE trusted_folders (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	folder TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	proof TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	revoked_at TEXT, 
	revoked_by TEXT, 
	CONSTRAINT pk_trusted_folders PRIMARY KEY (id)
);
CREATE INDEX ix_trusted_folders_owner ON trusted_folders (organization_id, user_id);
CREATE TABLE organizations (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	deactivated_at TEXT, 
	CONSTRAINT pk_organizations PRIMARY KEY (id)
);
CREATE TABLE users (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	email TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	deactivated_at TEXT, 
	CONSTRAINT pk_users PRIMARY KEY (id)
);
CREATE TABLE memberships (
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	role TEXT NOT NULL, 
	permissions TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	deactivated_at TEXT, 
	CONSTRAINT pk_memberships PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX ix_memberships_user_id ON memberships (user_id);
CREATE TABLE identities (
	issuer TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	CONSTRAINT pk_identities PRIMARY KEY (issuer, subject)
);
CREATE INDEX ix_identities_user_id ON identities (user_id);
CREATE TABLE tokens (
	hash TEXT NOT NULL, 
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	actor_name TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	expires_at TEXT, 
	last_used_at TEXT, 
	revoked_at TEXT, 
	revoked_by TEXT, created_with TEXT, 
	CONSTRAINT pk_tokens PRIMARY KEY (hash)
);
CREATE INDEX ix_tokens_owner ON tokens (organization_id, user_id);
CREATE TABLE sign_in_codes (
	hash TEXT NOT NULL, 
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	actor_name TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	used_at TEXT, 
	CONSTRAINT pk_sign_in_codes PRIMARY KEY (hash)
);
CREATE INDEX ix_sign_in_codes_owner ON sign_in_codes (organization_id, user_id);
CREATE TABLE web_sessions (
	hash TEXT NOT NULL, 
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	actor_name TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	how TEXT NOT NULL, 
	client TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	ends_at TEXT NOT NULL, 
	last_used_at TEXT, 
	revoked_at TEXT, 
	revoked_by TEXT, 
	CONSTRAINT pk_web_sessions PRIMARY KEY (hash)
);
CREATE INDEX ix_web_sessions_owner ON web_sessions (organization_id, user_id);
CREATE TABLE pruned_counts (
	organization_id TEXT NOT NULL, 
	log TEXT NOT NULL, 
	name TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	source TEXT NOT NULL, 
	bucket INTEGER NOT NULL, 
	total BIGINT NOT NULL, 
	seconds FLOAT NOT NULL, 
	last_at TEXT NOT NULL, 
	CONSTRAINT pk_pruned_counts PRIMARY KEY (organization_id, log, name, subject, source, bucket)
);
CREATE TABLE skill_sources (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	name TEXT NOT NULL, 
	source_type TEXT NOT NULL, 
	config JSON NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	last_sync_at TEXT, 
	last_sync_status TEXT, 
	last_sync_error TEXT, 
	fetched_url TEXT NOT NULL, 
	revision TEXT NOT NULL, 
	tree TEXT NOT NULL, 
	etag TEXT NOT NULL, 
	checked_at TEXT NOT NULL, 
	pinned_key TEXT NOT NULL, 
	sequence BIGINT NOT NULL, 
	counts JSON NOT NULL, 
	problems JSON NOT NULL, 
	lease_owner TEXT, 
	lease_until TEXT, 
	CONSTRAINT pk_skill_sources PRIMARY KEY (id)
);
CREATE INDEX ix_skill_sources_owner ON skill_sources (organization_id, user_id);
CREATE TABLE skill_source_items (
	source_id TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	path TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	revision TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	CONSTRAINT pk_skill_source_items PRIMARY KEY (source_id, slug), 
	CONSTRAINT fk_skill_source_items_source_id FOREIGN KEY(source_id) REFERENCES skill_sources (id) ON DELETE CASCADE
);
CREATE TABLE jobs (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	state TEXT NOT NULL, 
	skill_slug TEXT NOT NULL, 
	skill_digest TEXT NOT NULL, 
	place TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	queued_at TEXT NOT NULL, 
	started_at TEXT, 
	finished_at TEXT, 
	total INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	failed INTEGER NOT NULL, 
	cost FLOAT, 
	approval_id TEXT, 
	error_code TEXT, 
	error TEXT, 
	hint TEXT, 
	actor JSON NOT NULL, 
	request JSON NOT NULL, 
	result JSON, 
	CONSTRAINT pk_jobs PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_jobs_name ON jobs (organization_id, user_id, name);
CREATE INDEX ix_jobs_created ON jobs (organization_id, created_at);
CREATE TABLE job_items (
	job_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	organization_id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	cost FLOAT, 
	input TEXT NOT NULL, 
	result TEXT, 
	CONSTRAINT pk_job_items PRIMARY KEY (job_id, position)
);
CREATE INDEX ix_job_items_state ON job_items (job_id, state);
CREATE TABLE job_workers (
	id TEXT NOT NULL, 
	process TEXT NOT NULL, 
	place TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	seen_at TEXT NOT NULL, 
	claimed_at TEXT, 
	CONSTRAINT pk_job_workers PRIMARY KEY (id)
);
CREATE TABLE optimizer_proposals (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	state TEXT NOT NULL, 
	skill_slug TEXT NOT NULL, 
	scope TEXT NOT NULL, 
	artifact TEXT NOT NULL, 
	method TEXT NOT NULL, 
	base_digest TEXT NOT NULL, 
	candidate_digest TEXT NOT NULL, 
	held_out TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	finished_at TEXT, 
	approved_at TEXT, 
	approver TEXT NOT NULL, 
	stopping BOOLEAN NOT NULL, 
	version INTEGER, 
	calls INTEGER NOT NULL, 
	cost FLOAT, 
	score FLOAT, 
	reason TEXT NOT NULL, 
	actor JSON NOT NULL, 
	request JSON NOT NULL, 
	change JSON, 
	test JSON, 
	live JSON, 
	CONSTRAINT pk_optimizer_proposals PRIMARY KEY (id)
);
CREATE INDEX ix_optimizer_proposals_created ON optimizer_proposals (organization_id, created_at);
CREATE INDEX ix_optimizer_proposals_state ON optimizer_proposals (state);
CREATE TABLE eval_runs (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	skill_slug TEXT NOT NULL, 
	skill_digest TEXT NOT NULL, 
	state TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	finished_at TEXT, 
	total INTEGER NOT NULL, 
	done INTEGER NOT NULL, 
	failed INTEGER NOT NULL, 
	errors INTEGER NOT NULL, 
	cost FLOAT, 
	"plan" JSON NOT NULL, 
	arms JSON NOT NULL, 
	summary JSON, 
	CONSTRAINT pk_eval_runs PRIMARY KEY (id)
);
CREATE INDEX ix_eval_runs_created ON eval_runs (organization_id, created_at);
CREATE TABLE eval_results (
	run_id TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	cache_key TEXT NOT NULL, 
	result TEXT NOT NULL, 
	CONSTRAINT pk_eval_results PRIMARY KEY (run_id, position)
);
CREATE INDEX ix_eval_results_cache ON eval_results (organization_id, user_id, cache_key);
CREATE TABLE eval_scores (
	organization_id TEXT NOT NULL, 
	skill_slug TEXT NOT NULL, 
	skill_digest TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	run_id TEXT NOT NULL, 
	score FLOAT NOT NULL, 
	detail JSON NOT NULL, 
	CONSTRAINT pk_eval_scores PRIMARY KEY (organization_id, skill_slug, skill_digest)
);
CREATE TABLE compositions (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	state TEXT NOT NULL, 
	request TEXT NOT NULL, 
	skill TEXT NOT NULL, 
	base_digest TEXT NOT NULL, 
	round INTEGER NOT NULL, 
	saved_as TEXT NOT NULL, 
	saved_digest TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	CONSTRAINT pk_compositions PRIMARY KEY (id)
);
CREATE INDEX ix_compositions_updated ON compositions (organization_id, updated_at);
CREATE TABLE composition_rounds (
	composition_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	organization_id TEXT NOT NULL, 
	previous INTEGER NOT NULL, 
	feedback TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	model TEXT NOT NULL, 
	cost FLOAT, 
	slug TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	manifest JSON NOT NULL, 
	draft JSON NOT NULL, 
	checks JSON NOT NULL, 
	created_at TEXT NOT NULL, 
	CONSTRAINT pk_composition_rounds PRIMARY KEY (composition_id, number)
);
CREATE TABLE conversations (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	title TEXT NOT NULL, 
	turn INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	pending JSON NOT NULL, 
	lease TEXT NOT NULL, 
	lease_until TEXT NOT NULL, 
	input_tokens INTEGER NOT NULL, 
	output_tokens INTEGER NOT NULL, 
	cost FLOAT, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	CONSTRAINT pk_conversations PRIMARY KEY (id), 
	CONSTRAINT fk_conversations_id FOREIGN KEY(id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE INDEX ix_conversations_updated ON conversations (organization_id, user_id, updated_at);
CREATE TABLE conversation_messages (
	conversation_id TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	organization_id TEXT NOT NULL, 
	turn INTEGER NOT NULL, 
	role TEXT NOT NULL, 
	call_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	calls JSON NOT NULL, 
	detail JSON NOT NULL, 
	text TEXT NOT NULL, 
	CONSTRAINT pk_conversation_messages PRIMARY KEY (conversation_id, number), 
	CONSTRAINT fk_conversation_messages_conversation_id FOREIGN KEY(conversation_id) REFERENCES conversations (id) ON DELETE CASCADE
);
CREATE TABLE memories (
	id TEXT NOT NULL, 
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	text TEXT NOT NULL, 
	CONSTRAINT pk_memories PRIMARY KEY (id)
);
CREATE INDEX ix_memories_created ON memories (organization_id, user_id, created_at);
CREATE TABLE connectors (
	organization_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	config JSON NOT NULL, 
	created_by TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	updated_at TEXT NOT NULL, 
	CONSTRAINT pk_connectors PRIMARY KEY (organization_id, name)
);
CREATE TABLE connector_grants (
	organization_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	connector TEXT NOT NULL, 
	config_digest TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	tool_digest TEXT NOT NULL, 
	granted_by TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	CONSTRAINT pk_connector_grants PRIMARY KEY (organization_id, user_id, connector, config_digest, tool)
);
CREATE INDEX ix_skills_tenant_seal ON skills (coalesce(organization_id, ''), coalesce(user_id, ''), scope, reader, slug, seal, people_only);
