BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE dictionaries (
	id VARCHAR(36) NOT NULL, 
	glossary_id VARCHAR(36) NOT NULL, 
	source VARCHAR(8) NOT NULL, 
	target VARCHAR(8) NOT NULL, 
	entry_count BIGINT NOT NULL, 
	entries BLOB NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (glossary_id, source, target)
);
INSERT INTO "dictionaries" VALUES('bda57271-b5f9-40ca-9546-4a08d713d62e','64664d66-0b22-40d7-ae33-356684561522','en','ko',1,X'63617409EAB3A0EC9691EC9DB4');
CREATE TABLE glossaries (
	id VARCHAR(36) NOT NULL, 
	owner VARCHAR(12) NOT NULL, 
	name VARCHAR(1024) NOT NULL, 
	created_at_ms BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "glossaries" VALUES('64664d66-0b22-40d7-ae33-356684561522','fe79566d47c5','animals',1795414500954);
CREATE TABLE keys (
	id VARCHAR(12) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	characters_per_month BIGINT, 
	requests_per_minute BIGINT, 
	routes JSON NOT NULL, 
	created_at BIGINT NOT NULL, 
	revoked_at BIGINT, 
	PRIMARY KEY (id)
);
INSERT INTO "keys" VALUES('fe79566d47c5','cat-tool','b7c772139208ada038f57bbc3234645f571e1089081fecedc27f26355d13fe22',5000,600,'[]',1795414495,NULL);
INSERT INTO "keys" VALUES('b15d9a36424f','reader','a04c7f62f775f9644a9a92f7fc523e26eda28c17e2f0cfbe66ed0d9858496b3d',NULL,NULL,'["/v2/usage"]',1795414495,NULL);
CREATE TABLE usage (
	key_id VARCHAR(12) NOT NULL, 
	month BIGINT NOT NULL, 
	ledger VARCHAR(32) NOT NULL, 
	characters BIGINT NOT NULL, 
	PRIMARY KEY (key_id, month, ledger)
);
INSERT INTO "usage" VALUES('fe79566d47c5',24322,'dea9a576de0e4358a8039de607746e35',5);
CREATE UNIQUE INDEX one_valid_key_of_a_name ON keys (name) WHERE revoked_at IS NULL;
CREATE INDEX ix_glossaries_owner ON glossaries (owner);
COMMIT;
