BEGIN TRANSACTION;
CREATE TABLE "auth_group" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(150) NOT NULL UNIQUE);
CREATE TABLE "auth_group_permissions" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "group_id" integer NOT NULL REFERENCES "auth_group" ("id") DEFERRABLE INITIALLY DEFERRED, "permission_id" integer NOT NULL REFERENCES "auth_permission" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "auth_permission" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "content_type_id" integer NOT NULL REFERENCES "django_content_type" ("id") DEFERRABLE INITIALLY DEFERRED, "codename" varchar(100) NOT NULL, "name" varchar(255) NOT NULL);
INSERT INTO "auth_permission" VALUES(1,1,'add_permission','Can add permission');
INSERT INTO "auth_permission" VALUES(2,1,'change_permission','Can change permission');
INSERT INTO "auth_permission" VALUES(3,1,'delete_permission','Can delete permission');
INSERT INTO "auth_permission" VALUES(4,1,'view_permission','Can view permission');
INSERT INTO "auth_permission" VALUES(5,2,'add_group','Can add group');
INSERT INTO "auth_permission" VALUES(6,2,'change_group','Can change group');
INSERT INTO "auth_permission" VALUES(7,2,'delete_group','Can delete group');
INSERT INTO "auth_permission" VALUES(8,2,'view_group','Can view group');
INSERT INTO "auth_permission" VALUES(9,3,'add_contenttype','Can add content type');
INSERT INTO "auth_permission" VALUES(10,3,'change_contenttype','Can change content type');
INSERT INTO "auth_permission" VALUES(11,3,'delete_contenttype','Can delete content type');
INSERT INTO "auth_permission" VALUES(12,3,'view_contenttype','Can view content type');
INSERT INTO "auth_permission" VALUES(13,4,'add_session','Can add session');
INSERT INTO "auth_permission" VALUES(14,4,'change_session','Can change session');
INSERT INTO "auth_permission" VALUES(15,4,'delete_session','Can delete session');
INSERT INTO "auth_permission" VALUES(16,4,'view_session','Can view session');
INSERT INTO "auth_permission" VALUES(17,5,'add_user','Can add user');
INSERT INTO "auth_permission" VALUES(18,5,'change_user','Can change user');
INSERT INTO "auth_permission" VALUES(19,5,'delete_user','Can delete user');
INSERT INTO "auth_permission" VALUES(20,5,'view_user','Can view user');
INSERT INTO "auth_permission" VALUES(21,6,'add_auditevent','Can add audit event');
INSERT INTO "auth_permission" VALUES(22,6,'change_auditevent','Can change audit event');
INSERT INTO "auth_permission" VALUES(23,6,'delete_auditevent','Can delete audit event');
INSERT INTO "auth_permission" VALUES(24,6,'view_auditevent','Can view audit event');
INSERT INTO "auth_permission" VALUES(25,7,'add_heartbeat','Can add heartbeat');
INSERT INTO "auth_permission" VALUES(26,7,'change_heartbeat','Can change heartbeat');
INSERT INTO "auth_permission" VALUES(27,7,'delete_heartbeat','Can delete heartbeat');
INSERT INTO "auth_permission" VALUES(28,7,'view_heartbeat','Can view heartbeat');
INSERT INTO "auth_permission" VALUES(29,8,'add_apitoken','Can add api token');
INSERT INTO "auth_permission" VALUES(30,8,'change_apitoken','Can change api token');
INSERT INTO "auth_permission" VALUES(31,8,'delete_apitoken','Can delete api token');
INSERT INTO "auth_permission" VALUES(32,8,'view_apitoken','Can view api token');
INSERT INTO "auth_permission" VALUES(33,9,'add_userkey','Can add user key');
INSERT INTO "auth_permission" VALUES(34,9,'change_userkey','Can change user key');
INSERT INTO "auth_permission" VALUES(35,9,'delete_userkey','Can delete user key');
INSERT INTO "auth_permission" VALUES(36,9,'view_userkey','Can view user key');
INSERT INTO "auth_permission" VALUES(37,10,'add_formeruser','Can add former user');
INSERT INTO "auth_permission" VALUES(38,10,'change_formeruser','Can change former user');
INSERT INTO "auth_permission" VALUES(39,10,'delete_formeruser','Can delete former user');
INSERT INTO "auth_permission" VALUES(40,10,'view_formeruser','Can view former user');
INSERT INTO "auth_permission" VALUES(41,11,'add_leaserow','Can add lease row');
INSERT INTO "auth_permission" VALUES(42,11,'change_leaserow','Can change lease row');
INSERT INTO "auth_permission" VALUES(43,11,'delete_leaserow','Can delete lease row');
INSERT INTO "auth_permission" VALUES(44,11,'view_leaserow','Can view lease row');
INSERT INTO "auth_permission" VALUES(45,12,'add_localfolder','Can add local folder');
INSERT INTO "auth_permission" VALUES(46,12,'change_localfolder','Can change local folder');
INSERT INTO "auth_permission" VALUES(47,12,'delete_localfolder','Can delete local folder');
INSERT INTO "auth_permission" VALUES(48,12,'view_localfolder','Can view local folder');
INSERT INTO "auth_permission" VALUES(49,13,'add_terminal','Can add terminal');
INSERT INTO "auth_permission" VALUES(50,13,'change_terminal','Can change terminal');
INSERT INTO "auth_permission" VALUES(51,13,'delete_terminal','Can delete terminal');
INSERT INTO "auth_permission" VALUES(52,13,'view_terminal','Can view terminal');
INSERT INTO "auth_permission" VALUES(53,14,'add_ticket','Can add ticket');
INSERT INTO "auth_permission" VALUES(54,14,'change_ticket','Can change ticket');
INSERT INTO "auth_permission" VALUES(55,14,'delete_ticket','Can delete ticket');
INSERT INTO "auth_permission" VALUES(56,14,'view_ticket','Can view ticket');
INSERT INTO "auth_permission" VALUES(57,15,'add_host','Can add host');
INSERT INTO "auth_permission" VALUES(58,15,'change_host','Can change host');
INSERT INTO "auth_permission" VALUES(59,15,'delete_host','Can delete host');
INSERT INTO "auth_permission" VALUES(60,15,'view_host','Can view host');
INSERT INTO "auth_permission" VALUES(61,16,'add_shared','Can add shared');
INSERT INTO "auth_permission" VALUES(62,16,'change_shared','Can change shared');
INSERT INTO "auth_permission" VALUES(63,16,'delete_shared','Can delete shared');
INSERT INTO "auth_permission" VALUES(64,16,'view_shared','Can view shared');
INSERT INTO "auth_permission" VALUES(65,17,'add_schedule','Can add Scheduled task');
INSERT INTO "auth_permission" VALUES(66,17,'change_schedule','Can change Scheduled task');
INSERT INTO "auth_permission" VALUES(67,17,'delete_schedule','Can delete Scheduled task');
INSERT INTO "auth_permission" VALUES(68,17,'view_schedule','Can view Scheduled task');
INSERT INTO "auth_permission" VALUES(69,18,'add_task','Can add Task');
INSERT INTO "auth_permission" VALUES(70,18,'change_task','Can change Task');
INSERT INTO "auth_permission" VALUES(71,18,'delete_task','Can delete Task');
INSERT INTO "auth_permission" VALUES(72,18,'view_task','Can view Task');
INSERT INTO "auth_permission" VALUES(73,19,'add_failure','Can add Failed task');
INSERT INTO "auth_permission" VALUES(74,19,'change_failure','Can change Failed task');
INSERT INTO "auth_permission" VALUES(75,19,'delete_failure','Can delete Failed task');
INSERT INTO "auth_permission" VALUES(76,19,'view_failure','Can view Failed task');
INSERT INTO "auth_permission" VALUES(77,20,'add_success','Can add Successful task');
INSERT INTO "auth_permission" VALUES(78,20,'change_success','Can change Successful task');
INSERT INTO "auth_permission" VALUES(79,20,'delete_success','Can delete Successful task');
INSERT INTO "auth_permission" VALUES(80,20,'view_success','Can view Successful task');
INSERT INTO "auth_permission" VALUES(81,21,'add_ormq','Can add Queued task');
INSERT INTO "auth_permission" VALUES(82,21,'change_ormq','Can change Queued task');
INSERT INTO "auth_permission" VALUES(83,21,'delete_ormq','Can delete Queued task');
INSERT INTO "auth_permission" VALUES(84,21,'view_ormq','Can view Queued task');
INSERT INTO "auth_permission" VALUES(85,22,'add_accessattempt','Can add access attempt');
INSERT INTO "auth_permission" VALUES(86,22,'change_accessattempt','Can change access attempt');
INSERT INTO "auth_permission" VALUES(87,22,'delete_accessattempt','Can delete access attempt');
INSERT INTO "auth_permission" VALUES(88,22,'view_accessattempt','Can view access attempt');
INSERT INTO "auth_permission" VALUES(89,23,'add_accesslog','Can add access log');
INSERT INTO "auth_permission" VALUES(90,23,'change_accesslog','Can change access log');
INSERT INTO "auth_permission" VALUES(91,23,'delete_accesslog','Can delete access log');
INSERT INTO "auth_permission" VALUES(92,23,'view_accesslog','Can view access log');
INSERT INTO "auth_permission" VALUES(93,24,'add_accessfailurelog','Can add access failure');
INSERT INTO "auth_permission" VALUES(94,24,'change_accessfailurelog','Can change access failure');
INSERT INTO "auth_permission" VALUES(95,24,'delete_accessfailurelog','Can delete access failure');
INSERT INTO "auth_permission" VALUES(96,24,'view_accessfailurelog','Can view access failure');
INSERT INTO "auth_permission" VALUES(97,25,'add_accessattemptexpiration','Can add access attempt expiration');
INSERT INTO "auth_permission" VALUES(98,25,'change_accessattemptexpiration','Can change access attempt expiration');
INSERT INTO "auth_permission" VALUES(99,25,'delete_accessattemptexpiration','Can delete access attempt expiration');
INSERT INTO "auth_permission" VALUES(100,25,'view_accessattemptexpiration','Can view access attempt expiration');
INSERT INTO "auth_permission" VALUES(101,26,'add_node','Can add node');
INSERT INTO "auth_permission" VALUES(102,26,'change_node','Can change node');
INSERT INTO "auth_permission" VALUES(103,26,'delete_node','Can delete node');
INSERT INTO "auth_permission" VALUES(104,26,'view_node','Can view node');
INSERT INTO "auth_permission" VALUES(105,27,'add_virtualcluster','Can add virtual cluster');
INSERT INTO "auth_permission" VALUES(106,27,'change_virtualcluster','Can change virtual cluster');
INSERT INTO "auth_permission" VALUES(107,27,'delete_virtualcluster','Can delete virtual cluster');
INSERT INTO "auth_permission" VALUES(108,27,'view_virtualcluster','Can view virtual cluster');
INSERT INTO "auth_permission" VALUES(109,28,'add_allocation','Can add allocation');
INSERT INTO "auth_permission" VALUES(110,28,'change_allocation','Can change allocation');
INSERT INTO "auth_permission" VALUES(111,28,'delete_allocation','Can delete allocation');
INSERT INTO "auth_permission" VALUES(112,28,'view_allocation','Can view allocation');
INSERT INTO "auth_permission" VALUES(113,29,'add_vcgrant','Can add vc grant');
INSERT INTO "auth_permission" VALUES(114,29,'change_vcgrant','Can change vc grant');
INSERT INTO "auth_permission" VALUES(115,29,'delete_vcgrant','Can delete vc grant');
INSERT INTO "auth_permission" VALUES(116,29,'view_vcgrant','Can view vc grant');
INSERT INTO "auth_permission" VALUES(117,30,'add_group','Can add group');
INSERT INTO "auth_permission" VALUES(118,30,'change_group','Can change group');
INSERT INTO "auth_permission" VALUES(119,30,'delete_group','Can delete group');
INSERT INTO "auth_permission" VALUES(120,30,'view_group','Can view group');
INSERT INTO "auth_permission" VALUES(121,31,'add_groupmember','Can add group member');
INSERT INTO "auth_permission" VALUES(122,31,'change_groupmember','Can change group member');
INSERT INTO "auth_permission" VALUES(123,31,'delete_groupmember','Can delete group member');
INSERT INTO "auth_permission" VALUES(124,31,'view_groupmember','Can view group member');
INSERT INTO "auth_permission" VALUES(125,32,'add_keptimage','Can add kept image');
INSERT INTO "auth_permission" VALUES(126,32,'change_keptimage','Can change kept image');
INSERT INTO "auth_permission" VALUES(127,32,'delete_keptimage','Can delete kept image');
INSERT INTO "auth_permission" VALUES(128,32,'view_keptimage','Can view kept image');
INSERT INTO "auth_permission" VALUES(129,33,'add_cluster','Can add cluster');
INSERT INTO "auth_permission" VALUES(130,33,'change_cluster','Can change cluster');
INSERT INTO "auth_permission" VALUES(131,33,'delete_cluster','Can delete cluster');
INSERT INTO "auth_permission" VALUES(132,33,'view_cluster','Can view cluster');
INSERT INTO "auth_permission" VALUES(133,34,'add_job','Can add job');
INSERT INTO "auth_permission" VALUES(134,34,'change_job','Can change job');
INSERT INTO "auth_permission" VALUES(135,34,'delete_job','Can delete job');
INSERT INTO "auth_permission" VALUES(136,34,'view_job','Can view job');
INSERT INTO "auth_permission" VALUES(137,35,'add_attempt','Can add attempt');
INSERT INTO "auth_permission" VALUES(138,35,'change_attempt','Can change attempt');
INSERT INTO "auth_permission" VALUES(139,35,'delete_attempt','Can delete attempt');
INSERT INTO "auth_permission" VALUES(140,35,'view_attempt','Can view attempt');
INSERT INTO "auth_permission" VALUES(141,36,'add_task','Can add task');
INSERT INTO "auth_permission" VALUES(142,36,'change_task','Can change task');
INSERT INTO "auth_permission" VALUES(143,36,'delete_task','Can delete task');
INSERT INTO "auth_permission" VALUES(144,36,'view_task','Can view task');
INSERT INTO "auth_permission" VALUES(145,37,'add_event','Can add event');
INSERT INTO "auth_permission" VALUES(146,37,'change_event','Can change event');
INSERT INTO "auth_permission" VALUES(147,37,'delete_event','Can delete event');
INSERT INTO "auth_permission" VALUES(148,37,'view_event','Can view event');
INSERT INTO "auth_permission" VALUES(149,38,'add_jobkey','Can add job key');
INSERT INTO "auth_permission" VALUES(150,38,'change_jobkey','Can change job key');
INSERT INTO "auth_permission" VALUES(151,38,'delete_jobkey','Can delete job key');
INSERT INTO "auth_permission" VALUES(152,38,'view_jobkey','Can view job key');
INSERT INTO "auth_permission" VALUES(153,39,'add_discarded','Can add discarded');
INSERT INTO "auth_permission" VALUES(154,39,'change_discarded','Can change discarded');
INSERT INTO "auth_permission" VALUES(155,39,'delete_discarded','Can delete discarded');
INSERT INTO "auth_permission" VALUES(156,39,'view_discarded','Can view discarded');
INSERT INTO "auth_permission" VALUES(157,40,'add_jobsecrets','Can add job secrets');
INSERT INTO "auth_permission" VALUES(158,40,'change_jobsecrets','Can change job secrets');
INSERT INTO "auth_permission" VALUES(159,40,'delete_jobsecrets','Can delete job secrets');
INSERT INTO "auth_permission" VALUES(160,40,'view_jobsecrets','Can view job secrets');
INSERT INTO "auth_permission" VALUES(161,41,'add_dependency','Can add dependency');
INSERT INTO "auth_permission" VALUES(162,41,'change_dependency','Can change dependency');
INSERT INTO "auth_permission" VALUES(163,41,'delete_dependency','Can delete dependency');
INSERT INTO "auth_permission" VALUES(164,41,'view_dependency','Can view dependency');
INSERT INTO "auth_permission" VALUES(165,42,'add_holding','Can add holding');
INSERT INTO "auth_permission" VALUES(166,42,'change_holding','Can change holding');
INSERT INTO "auth_permission" VALUES(167,42,'delete_holding','Can delete holding');
INSERT INTO "auth_permission" VALUES(168,42,'view_holding','Can view holding');
INSERT INTO "auth_permission" VALUES(169,43,'add_prediction','Can add prediction');
INSERT INTO "auth_permission" VALUES(170,43,'change_prediction','Can change prediction');
INSERT INTO "auth_permission" VALUES(171,43,'delete_prediction','Can delete prediction');
INSERT INTO "auth_permission" VALUES(172,43,'view_prediction','Can view prediction');
INSERT INTO "auth_permission" VALUES(173,44,'add_replay','Can add replay');
INSERT INTO "auth_permission" VALUES(174,44,'change_replay','Can change replay');
INSERT INTO "auth_permission" VALUES(175,44,'delete_replay','Can delete replay');
INSERT INTO "auth_permission" VALUES(176,44,'view_replay','Can view replay');
INSERT INTO "auth_permission" VALUES(177,45,'add_template','Can add template');
INSERT INTO "auth_permission" VALUES(178,45,'change_template','Can change template');
INSERT INTO "auth_permission" VALUES(179,45,'delete_template','Can delete template');
INSERT INTO "auth_permission" VALUES(180,45,'view_template','Can view template');
INSERT INTO "auth_permission" VALUES(181,46,'add_draft','Can add draft');
INSERT INTO "auth_permission" VALUES(182,46,'change_draft','Can change draft');
INSERT INTO "auth_permission" VALUES(183,46,'delete_draft','Can delete draft');
INSERT INTO "auth_permission" VALUES(184,46,'view_draft','Can view draft');
INSERT INTO "auth_permission" VALUES(185,47,'add_sweep','Can add sweep');
INSERT INTO "auth_permission" VALUES(186,47,'change_sweep','Can change sweep');
INSERT INTO "auth_permission" VALUES(187,47,'delete_sweep','Can delete sweep');
INSERT INTO "auth_permission" VALUES(188,47,'view_sweep','Can view sweep');
INSERT INTO "auth_permission" VALUES(189,48,'add_pagevisit','Can add page visit');
INSERT INTO "auth_permission" VALUES(190,48,'change_pagevisit','Can change page visit');
INSERT INTO "auth_permission" VALUES(191,48,'delete_pagevisit','Can delete page visit');
INSERT INTO "auth_permission" VALUES(192,48,'view_pagevisit','Can view page visit');
INSERT INTO "auth_permission" VALUES(193,49,'add_pageshare','Can add page share');
INSERT INTO "auth_permission" VALUES(194,49,'change_pageshare','Can change page share');
INSERT INTO "auth_permission" VALUES(195,49,'delete_pageshare','Can delete page share');
INSERT INTO "auth_permission" VALUES(196,49,'view_pageshare','Can view page share');
CREATE TABLE "axes_accessattempt" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "user_agent" varchar(255) NOT NULL, "ip_address" char(39) NULL, "username" varchar(255) NULL, "http_accept" varchar(1025) NOT NULL, "path_info" varchar(255) NOT NULL, "attempt_time" datetime NOT NULL, "get_data" text NOT NULL, "post_data" text NOT NULL, "failures_since_start" integer unsigned NOT NULL CHECK ("failures_since_start" >= 0));
CREATE TABLE "axes_accessattemptexpiration" ("access_attempt_id" integer NOT NULL PRIMARY KEY REFERENCES "axes_accessattempt" ("id") DEFERRABLE INITIALLY DEFERRED, "expires_at" datetime NOT NULL);
CREATE TABLE "axes_accessfailurelog" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "user_agent" varchar(255) NOT NULL, "ip_address" char(39) NULL, "username" varchar(255) NULL, "http_accept" varchar(1025) NOT NULL, "path_info" varchar(255) NOT NULL, "attempt_time" datetime NOT NULL, "locked_out" bool NOT NULL);
CREATE TABLE "axes_accesslog" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "user_agent" varchar(255) NOT NULL, "ip_address" char(39) NULL, "username" varchar(255) NULL, "http_accept" varchar(1025) NOT NULL, "path_info" varchar(255) NOT NULL, "attempt_time" datetime NOT NULL, "logout_time" datetime NULL, "session_hash" varchar(64) NOT NULL);
CREATE TABLE "clusters_allocation" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "owner" varchar(64) NOT NULL UNIQUE, "vc" varchar(64) NOT NULL, "cpus" integer unsigned NOT NULL CHECK ("cpus" >= 0), "memory_mb" integer unsigned NOT NULL CHECK ("memory_mb" >= 0), "gpu_ids" text NOT NULL CHECK ((JSON_VALID("gpu_ids") OR "gpu_ids" IS NULL)), "ports" text NOT NULL CHECK ((JSON_VALID("ports") OR "ports" IS NULL)), "created_at" datetime NOT NULL, "node_id" bigint NOT NULL REFERENCES "clusters_node" ("id") DEFERRABLE INITIALLY DEFERRED);
INSERT INTO "clusters_allocation" VALUES(1,'4','default',1,1024,'["0"]','[30000, 30001]','2026-11-22 16:10:58.871261',1);
INSERT INTO "clusters_allocation" VALUES(2,'5','default',1,1024,'["1"]','[30002, 30003]','2026-11-22 16:10:58.871693',1);
CREATE TABLE "clusters_cluster" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(40) NOT NULL UNIQUE, "endpoint" varchar(255) NOT NULL, "tls_dir" varchar(255) NOT NULL, "selector" text NOT NULL CHECK ((JSON_VALID("selector") OR "selector" IS NULL)), "port_from" integer unsigned NOT NULL CHECK ("port_from" >= 0), "port_to" integer unsigned NOT NULL CHECK ("port_to" >= 0), "network" varchar(8) NOT NULL, "version" varchar(40) NOT NULL, "sees_others" bool NOT NULL, "silent_reason" text NOT NULL, "last_seen_at" datetime NULL, "created_at" datetime NOT NULL);
CREATE TABLE "clusters_group" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(64) NOT NULL UNIQUE, "description" text NOT NULL, "external_name" varchar(255) NOT NULL, "extension" text NOT NULL CHECK ((JSON_VALID("extension") OR "extension" IS NULL)), "vc_id" bigint NULL UNIQUE REFERENCES "clusters_virtualcluster" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "clusters_groupmember" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(64) NOT NULL, "group_id" bigint NOT NULL REFERENCES "clusters_group" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_membership_per_user" UNIQUE ("group_id", "username"));
CREATE TABLE "clusters_keptimage" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "image" varchar(120) NOT NULL UNIQUE, "username" varchar(64) NOT NULL, "owner" bigint NOT NULL, "size" bigint NOT NULL, "until" datetime NOT NULL, "node_id" bigint NOT NULL REFERENCES "clusters_node" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "clusters_node" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(63) NOT NULL UNIQUE, "endpoint" varchar(255) NOT NULL, "address" varchar(255) NOT NULL, "engine_id" varchar(100) NOT NULL, "docker_version" varchar(40) NOT NULL, "cpus" integer unsigned NOT NULL CHECK ("cpus" >= 0), "memory_mb" integer unsigned NOT NULL CHECK ("memory_mb" >= 0), "gpus" text NOT NULL CHECK ((JSON_VALID("gpus") OR "gpus" IS NULL)), "port_from" integer unsigned NOT NULL CHECK ("port_from" >= 0), "port_to" integer unsigned NOT NULL CHECK ("port_to" >= 0), "network" varchar(8) NOT NULL, "labels" text NOT NULL CHECK ((JSON_VALID("labels") OR "labels" IS NULL)), "status" varchar(12) NOT NULL, "health" varchar(12) NOT NULL, "health_reason" text NOT NULL, "last_seen_at" datetime NULL, "unreachable_since" datetime NULL, "held" text NOT NULL CHECK ((JSON_VALID("held") OR "held" IS NULL)), "tls_dir" varchar(255) NOT NULL, "created_at" datetime NOT NULL, "updated_at" datetime NOT NULL, "images" text NOT NULL CHECK ((JSON_VALID("images") OR "images" IS NULL)), "images_at" datetime NULL, "marks" text NOT NULL CHECK ((JSON_VALID("marks") OR "marks" IS NULL)), "surveyed_at" datetime NULL, "fixed_ports" text NOT NULL CHECK ((JSON_VALID("fixed_ports") OR "fixed_ports" IS NULL)), "dedicated_to_id" bigint NULL REFERENCES "clusters_virtualcluster" ("id") DEFERRABLE INITIALLY DEFERRED, "disk" text NOT NULL CHECK ((JSON_VALID("disk") OR "disk" IS NULL)), "exporter" varchar(255) DEFAULT '' NOT NULL, "closed" text DEFAULT '' NOT NULL, "host" varchar(253) DEFAULT '' NOT NULL, "others" text NULL CHECK ((JSON_VALID("others") OR "others" IS NULL)), "cluster_id" bigint NULL REFERENCES "clusters_cluster" ("id") DEFERRABLE INITIALLY DEFERRED);
INSERT INTO "clusters_node" VALUES(1,'gpu-01','unix:///nowhere','10.0.0.1','','',8,16384,'[{"id": "0", "type": "A100"}, {"id": "1", "type": "A100"}, {"id": "2", "type": "A100"}, {"id": "3", "type": "A100"}]',30000,39999,'host','{"zone": "a"}','active','ready','','2026-11-22 16:10:58.857614',NULL,'{}','','2026-11-22 16:10:58.857959','2026-11-22 16:10:58.857966','["longshore/sample:1"]',NULL,'{}',NULL,'[]',NULL,'{}','','','',NULL,NULL);
CREATE TABLE "clusters_vcgrant" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(64) NOT NULL, "vc_id" bigint NOT NULL REFERENCES "clusters_virtualcluster" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_grant_per_user" UNIQUE ("vc_id", "username"));
INSERT INTO "clusters_vcgrant" VALUES(1,'alice',2);
CREATE TABLE "clusters_virtualcluster" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(64) NOT NULL UNIQUE, "capacity" real NOT NULL, "max_capacity" real NOT NULL, "status" varchar(8) NOT NULL, "profile" varchar(8) NOT NULL, "rdma" bool NOT NULL, "store_quota" bigint NULL, "gpu_ceiling" integer unsigned NULL CHECK ("gpu_ceiling" >= 0), "gpu_guarantee" integer unsigned NULL CHECK ("gpu_guarantee" >= 0), "user_gpus" integer unsigned NULL CHECK ("user_gpus" >= 0), "user_jobs" integer unsigned NULL CHECK ("user_jobs" >= 0), "log_days" integer unsigned NULL CHECK ("log_days" >= 0), "log_gigabytes" integer unsigned NULL CHECK ("log_gigabytes" >= 0));
INSERT INTO "clusters_virtualcluster" VALUES(1,'default',100.0,100.0,'RUNNING','default',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "clusters_virtualcluster" VALUES(2,'vision',40.0,60.0,'RUNNING','default',0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE "django_content_type" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app_label" varchar(100) NOT NULL, "model" varchar(100) NOT NULL);
INSERT INTO "django_content_type" VALUES(1,'auth','permission');
INSERT INTO "django_content_type" VALUES(2,'auth','group');
INSERT INTO "django_content_type" VALUES(3,'contenttypes','contenttype');
INSERT INTO "django_content_type" VALUES(4,'sessions','session');
INSERT INTO "django_content_type" VALUES(5,'portal','user');
INSERT INTO "django_content_type" VALUES(6,'portal','auditevent');
INSERT INTO "django_content_type" VALUES(7,'portal','heartbeat');
INSERT INTO "django_content_type" VALUES(8,'portal','apitoken');
INSERT INTO "django_content_type" VALUES(9,'portal','userkey');
INSERT INTO "django_content_type" VALUES(10,'portal','formeruser');
INSERT INTO "django_content_type" VALUES(11,'portal','leaserow');
INSERT INTO "django_content_type" VALUES(12,'portal','localfolder');
INSERT INTO "django_content_type" VALUES(13,'portal','terminal');
INSERT INTO "django_content_type" VALUES(14,'portal','ticket');
INSERT INTO "django_content_type" VALUES(15,'portal','host');
INSERT INTO "django_content_type" VALUES(16,'portal','shared');
INSERT INTO "django_content_type" VALUES(17,'django_q','schedule');
INSERT INTO "django_content_type" VALUES(18,'django_q','task');
INSERT INTO "django_content_type" VALUES(19,'django_q','failure');
INSERT INTO "django_content_type" VALUES(20,'django_q','success');
INSERT INTO "django_content_type" VALUES(21,'django_q','ormq');
INSERT INTO "django_content_type" VALUES(22,'axes','accessattempt');
INSERT INTO "django_content_type" VALUES(23,'axes','accesslog');
INSERT INTO "django_content_type" VALUES(24,'axes','accessfailurelog');
INSERT INTO "django_content_type" VALUES(25,'axes','accessattemptexpiration');
INSERT INTO "django_content_type" VALUES(26,'clusters','node');
INSERT INTO "django_content_type" VALUES(27,'clusters','virtualcluster');
INSERT INTO "django_content_type" VALUES(28,'clusters','allocation');
INSERT INTO "django_content_type" VALUES(29,'clusters','vcgrant');
INSERT INTO "django_content_type" VALUES(30,'clusters','group');
INSERT INTO "django_content_type" VALUES(31,'clusters','groupmember');
INSERT INTO "django_content_type" VALUES(32,'clusters','keptimage');
INSERT INTO "django_content_type" VALUES(33,'clusters','cluster');
INSERT INTO "django_content_type" VALUES(34,'jobs','job');
INSERT INTO "django_content_type" VALUES(35,'jobs','attempt');
INSERT INTO "django_content_type" VALUES(36,'jobs','task');
INSERT INTO "django_content_type" VALUES(37,'jobs','event');
INSERT INTO "django_content_type" VALUES(38,'jobs','jobkey');
INSERT INTO "django_content_type" VALUES(39,'jobs','discarded');
INSERT INTO "django_content_type" VALUES(40,'jobs','jobsecrets');
INSERT INTO "django_content_type" VALUES(41,'jobs','dependency');
INSERT INTO "django_content_type" VALUES(42,'jobs','holding');
INSERT INTO "django_content_type" VALUES(43,'jobs','prediction');
INSERT INTO "django_content_type" VALUES(44,'jobs','replay');
INSERT INTO "django_content_type" VALUES(45,'jobs','template');
INSERT INTO "django_content_type" VALUES(46,'jobs','draft');
INSERT INTO "django_content_type" VALUES(47,'jobs','sweep');
INSERT INTO "django_content_type" VALUES(48,'jobs','pagevisit');
INSERT INTO "django_content_type" VALUES(49,'jobs','pageshare');
CREATE TABLE "django_migrations" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "app" varchar(255) NOT NULL, "name" varchar(255) NOT NULL, "applied" datetime NOT NULL);
INSERT INTO "django_migrations" VALUES(1,'contenttypes','0001_initial','2026-11-22 16:10:57.274097');
INSERT INTO "django_migrations" VALUES(2,'contenttypes','0002_remove_content_type_name','2026-11-22 16:10:57.279065');
INSERT INTO "django_migrations" VALUES(3,'auth','0001_initial','2026-11-22 16:10:57.289829');
INSERT INTO "django_migrations" VALUES(4,'auth','0002_alter_permission_name_max_length','2026-11-22 16:10:57.298357');
INSERT INTO "django_migrations" VALUES(5,'auth','0003_alter_user_email_max_length','2026-11-22 16:10:57.301763');
INSERT INTO "django_migrations" VALUES(6,'auth','0004_alter_user_username_opts','2026-11-22 16:10:57.308850');
INSERT INTO "django_migrations" VALUES(7,'auth','0005_alter_user_last_login_null','2026-11-22 16:10:57.312030');
INSERT INTO "django_migrations" VALUES(8,'auth','0006_require_contenttypes_0002','2026-11-22 16:10:57.312532');
INSERT INTO "django_migrations" VALUES(9,'auth','0007_alter_validators_add_error_messages','2026-11-22 16:10:57.314609');
INSERT INTO "django_migrations" VALUES(10,'auth','0008_alter_user_username_max_length','2026-11-22 16:10:57.323666');
INSERT INTO "django_migrations" VALUES(11,'auth','0009_alter_user_last_name_max_length','2026-11-22 16:10:57.326959');
INSERT INTO "django_migrations" VALUES(12,'auth','0010_alter_group_name_max_length','2026-11-22 16:10:57.334971');
INSERT INTO "django_migrations" VALUES(13,'auth','0011_update_proxy_permissions','2026-11-22 16:10:57.338322');
INSERT INTO "django_migrations" VALUES(14,'auth','0012_alter_user_first_name_max_length','2026-11-22 16:10:57.345273');
INSERT INTO "django_migrations" VALUES(15,'axes','0001_initial','2026-11-22 16:10:57.347383');
INSERT INTO "django_migrations" VALUES(16,'axes','0002_auto_20151217_2044','2026-11-22 16:10:57.380194');
INSERT INTO "django_migrations" VALUES(17,'axes','0003_auto_20160322_0929','2026-11-22 16:10:57.386985');
INSERT INTO "django_migrations" VALUES(18,'axes','0004_auto_20181024_1538','2026-11-22 16:10:57.396757');
INSERT INTO "django_migrations" VALUES(19,'axes','0005_remove_accessattempt_trusted','2026-11-22 16:10:57.399567');
INSERT INTO "django_migrations" VALUES(20,'axes','0006_remove_accesslog_trusted','2026-11-22 16:10:57.407267');
INSERT INTO "django_migrations" VALUES(21,'axes','0007_alter_accessattempt_unique_together','2026-11-22 16:10:57.417246');
INSERT INTO "django_migrations" VALUES(22,'axes','0008_accessfailurelog','2026-11-22 16:10:57.418685');
INSERT INTO "django_migrations" VALUES(23,'axes','0009_add_session_hash','2026-11-22 16:10:57.421364');
INSERT INTO "django_migrations" VALUES(24,'axes','0010_accessattemptexpiration','2026-11-22 16:10:57.423039');
INSERT INTO "django_migrations" VALUES(25,'clusters','0001_initial','2026-11-22 16:10:57.436519');
INSERT INTO "django_migrations" VALUES(26,'clusters','0002_default_vc','2026-11-22 16:10:57.449829');
INSERT INTO "django_migrations" VALUES(27,'clusters','0003_groups','2026-11-22 16:10:57.457002');
INSERT INTO "django_migrations" VALUES(28,'clusters','0004_vc_percents','2026-11-22 16:10:57.469249');
INSERT INTO "django_migrations" VALUES(29,'clusters','0005_node_images_and_marks','2026-11-22 16:10:57.494059');
INSERT INTO "django_migrations" VALUES(30,'clusters','0006_vc_profile_and_rdma','2026-11-22 16:10:57.509048');
INSERT INTO "django_migrations" VALUES(31,'clusters','0007_fixed_ports','2026-11-22 16:10:57.518800');
INSERT INTO "django_migrations" VALUES(32,'clusters','0008_store_quota','2026-11-22 16:10:57.521954');
INSERT INTO "django_migrations" VALUES(33,'clusters','0009_shares_and_turns','2026-11-22 16:10:57.559193');
INSERT INTO "django_migrations" VALUES(34,'clusters','0010_node_disk','2026-11-22 16:10:57.570673');
INSERT INTO "django_migrations" VALUES(35,'clusters','0011_node_exporter','2026-11-22 16:10:57.583323');
INSERT INTO "django_migrations" VALUES(36,'clusters','0012_kept_images','2026-11-22 16:10:57.588492');
INSERT INTO "django_migrations" VALUES(37,'clusters','0013_log_retention','2026-11-22 16:10:57.594136');
INSERT INTO "django_migrations" VALUES(38,'clusters','0014_kubernetes','2026-11-22 16:10:57.622995');
INSERT INTO "django_migrations" VALUES(39,'django_q','0001_initial','2026-11-22 16:10:57.625798');
INSERT INTO "django_migrations" VALUES(40,'django_q','0002_auto_20150630_1624','2026-11-22 16:10:57.630961');
INSERT INTO "django_migrations" VALUES(41,'django_q','0003_auto_20150708_1326','2026-11-22 16:10:57.638546');
INSERT INTO "django_migrations" VALUES(42,'django_q','0004_auto_20150710_1043','2026-11-22 16:10:57.640792');
INSERT INTO "django_migrations" VALUES(43,'django_q','0005_auto_20150718_1506','2026-11-22 16:10:57.643366');
INSERT INTO "django_migrations" VALUES(44,'django_q','0006_auto_20150805_1817','2026-11-22 16:10:57.645913');
INSERT INTO "django_migrations" VALUES(45,'django_q','0007_ormq','2026-11-22 16:10:57.647043');
INSERT INTO "django_migrations" VALUES(46,'django_q','0008_auto_20160224_1026','2026-11-22 16:10:57.648388');
INSERT INTO "django_migrations" VALUES(47,'django_q','0009_auto_20171009_0915','2026-11-22 16:10:57.651236');
INSERT INTO "django_migrations" VALUES(48,'django_q','0010_auto_20200610_0856','2026-11-22 16:10:57.661373');
INSERT INTO "django_migrations" VALUES(49,'django_q','0011_auto_20200628_1055','2026-11-22 16:10:57.663605');
INSERT INTO "django_migrations" VALUES(50,'django_q','0012_auto_20200702_1608','2026-11-22 16:10:57.665027');
INSERT INTO "django_migrations" VALUES(51,'django_q','0013_task_attempt_count','2026-11-22 16:10:57.668461');
INSERT INTO "django_migrations" VALUES(52,'django_q','0014_schedule_cluster','2026-11-22 16:10:57.670236');
INSERT INTO "django_migrations" VALUES(53,'django_q','0015_alter_schedule_schedule_type','2026-11-22 16:10:57.673228');
INSERT INTO "django_migrations" VALUES(54,'django_q','0016_schedule_intended_date_kwarg','2026-11-22 16:10:57.674632');
INSERT INTO "django_migrations" VALUES(55,'django_q','0017_task_cluster_alter','2026-11-22 16:10:57.678463');
INSERT INTO "django_migrations" VALUES(56,'django_q','0018_task_success_index','2026-11-22 16:10:57.680773');
INSERT INTO "django_migrations" VALUES(57,'django_q','0019_alter_task_options_alter_ormq_key_alter_ormq_lock_and_more','2026-11-22 16:10:57.725101');
INSERT INTO "django_migrations" VALUES(58,'portal','0001_initial','2026-11-22 16:10:57.734607');
INSERT INTO "django_migrations" VALUES(59,'jobs','0001_initial','2026-11-22 16:10:57.790773');
INSERT INTO "django_migrations" VALUES(60,'jobs','0002_never','2026-11-22 16:10:57.799729');
INSERT INTO "django_migrations" VALUES(61,'jobs','0003_job_indexes','2026-11-22 16:10:57.817522');
INSERT INTO "django_migrations" VALUES(62,'jobs','0004_live_indexes','2026-11-22 16:10:57.841961');
INSERT INTO "django_migrations" VALUES(63,'jobs','0005_published_and_keys','2026-11-22 16:10:57.917281');
INSERT INTO "django_migrations" VALUES(64,'jobs','0006_held','2026-11-22 16:10:57.929347');
INSERT INTO "django_migrations" VALUES(65,'jobs','0007_discarded','2026-11-22 16:10:57.931068');
INSERT INTO "django_migrations" VALUES(66,'jobs','0008_by_end','2026-11-22 16:10:57.935750');
INSERT INTO "django_migrations" VALUES(67,'jobs','0009_task_live','2026-11-22 16:10:57.941236');
INSERT INTO "django_migrations" VALUES(68,'jobs','0010_legacy','2026-11-22 16:10:57.953606');
INSERT INTO "django_migrations" VALUES(69,'jobs','0011_secrets','2026-11-22 16:10:57.961064');
INSERT INTO "django_migrations" VALUES(70,'jobs','0012_shares_and_turns','2026-11-22 16:10:58.006609');
INSERT INTO "django_migrations" VALUES(71,'jobs','0013_holding','2026-11-22 16:10:58.009012');
INSERT INTO "django_migrations" VALUES(72,'jobs','0014_holdings_of_before','2026-11-22 16:10:58.028942');
INSERT INTO "django_migrations" VALUES(73,'jobs','0015_dependencies_met','2026-11-22 16:10:58.060473');
INSERT INTO "django_migrations" VALUES(74,'jobs','0016_job_ends_by','2026-11-22 16:10:58.068652');
INSERT INTO "django_migrations" VALUES(75,'jobs','0017_forecasts','2026-11-22 16:10:58.081543');
INSERT INTO "django_migrations" VALUES(76,'jobs','0018_forecasts_by_limit','2026-11-22 16:10:58.083717');
INSERT INTO "django_migrations" VALUES(77,'jobs','0019_legacy_names','2026-11-22 16:10:58.104771');
INSERT INTO "django_migrations" VALUES(78,'jobs','0020_replays','2026-11-22 16:10:58.114557');
INSERT INTO "django_migrations" VALUES(79,'jobs','0021_submitting','2026-11-22 16:10:58.150139');
INSERT INTO "django_migrations" VALUES(80,'jobs','0022_diagnosis','2026-11-22 16:10:58.171075');
INSERT INTO "django_migrations" VALUES(81,'jobs','0023_web_pages','2026-11-22 16:10:58.192302');
INSERT INTO "django_migrations" VALUES(82,'jobs','0024_kept_logs','2026-11-22 16:10:58.222822');
INSERT INTO "django_migrations" VALUES(83,'jobs','0025_played_forecasts','2026-11-22 16:10:58.232735');
INSERT INTO "django_migrations" VALUES(84,'jobs','0026_evictions','2026-11-22 16:10:58.250760');
INSERT INTO "django_migrations" VALUES(85,'portal','0002_usernames','2026-11-22 16:10:58.258863');
INSERT INTO "django_migrations" VALUES(86,'portal','0003_user_extras','2026-11-22 16:10:58.272460');
INSERT INTO "django_migrations" VALUES(87,'portal','0004_user_keys','2026-11-22 16:10:58.285206');
INSERT INTO "django_migrations" VALUES(88,'portal','0005_former_users','2026-11-22 16:10:58.307158');
INSERT INTO "django_migrations" VALUES(89,'portal','0006_session_epoch','2026-11-22 16:10:58.320627');
INSERT INTO "django_migrations" VALUES(90,'portal','0007_lease_and_reports','2026-11-22 16:10:58.327476');
INSERT INTO "django_migrations" VALUES(91,'portal','0008_local_folder','2026-11-22 16:10:58.329832');
INSERT INTO "django_migrations" VALUES(92,'portal','0009_store_quota','2026-11-22 16:10:58.335477');
INSERT INTO "django_migrations" VALUES(93,'portal','0010_terminals','2026-11-22 16:10:58.340093');
INSERT INTO "django_migrations" VALUES(94,'portal','0011_hosts','2026-11-22 16:10:58.342752');
INSERT INTO "django_migrations" VALUES(95,'sessions','0001_initial','2026-11-22 16:10:58.344807');
CREATE TABLE "django_q_ormq" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "key" varchar(100) NOT NULL, "payload" text NOT NULL, "lock" datetime NULL);
CREATE TABLE "django_q_schedule" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "func" varchar(256) NOT NULL, "hook" varchar(256) NULL, "args" text NULL, "kwargs" text NULL, "repeats" integer NOT NULL, "next_run" datetime NULL, "task" varchar(100) NULL, "name" varchar(100) NULL, "minutes" smallint unsigned NULL CHECK ("minutes" >= 0), "cron" varchar(100) NULL, "cluster" varchar(100) NULL, "schedule_type" varchar(2) NOT NULL, "intended_date_kwarg" varchar(100) NULL);
CREATE TABLE "django_q_task" ("name" varchar(100) NOT NULL, "func" varchar(256) NOT NULL, "hook" varchar(256) NULL, "args" text NULL, "kwargs" text NULL, "result" text NULL, "started" datetime NOT NULL, "stopped" datetime NOT NULL, "success" bool NOT NULL, "id" varchar(32) NOT NULL PRIMARY KEY, "group" varchar(100) NULL, "attempt_count" integer NOT NULL, "cluster" varchar(100) NULL);
CREATE TABLE "django_session" ("session_key" varchar(40) NOT NULL PRIMARY KEY, "session_data" text NOT NULL, "expire_date" datetime NOT NULL);
CREATE TABLE "jobs_attempt" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "number" integer unsigned NOT NULL CHECK ("number" >= 0), "app_id" varchar(64) NOT NULL UNIQUE, "created_at" datetime NOT NULL, "launched_at" datetime NULL, "decided_at" datetime NULL, "completed_at" datetime NULL, "exit_code" integer NULL, "exit" text NOT NULL CHECK ((JSON_VALID("exit") OR "exit" IS NULL)), "job_id" bigint NOT NULL REFERENCES "jobs_job" ("id") DEFERRABLE INITIALLY DEFERRED, "diagnosis_due" datetime NULL, "diagnosis" text NULL CHECK ((JSON_VALID("diagnosis") OR "diagnosis" IS NULL)), "log_bytes" bigint DEFAULT 0 NOT NULL, "log_goes_at" datetime NULL, "log_gone_at" datetime NULL, CONSTRAINT "one_attempt_per_number" UNIQUE ("job_id", "number"));
INSERT INTO "jobs_attempt" VALUES(1,1,'application_1_1','2026-11-22 16:09:58.858538','2026-11-22 16:10:13.858538','2026-11-22 16:10:43.858538','2026-11-22 16:10:43.858538',0,'{"trigger": "", "role": "", "index": null, "reason": "", "exit": {"code": 0, "sentence": "", "remedy": "", "certainty": "certain", "blame": "nobody", "raw_code": null, "signal": null, "oom": false, "fault": null, "permanent": false}, "next": ""}',1,NULL,NULL,0,NULL,NULL);
INSERT INTO "jobs_attempt" VALUES(2,1,'application_2_2','2026-11-22 16:09:58.861542','2026-11-22 16:10:13.861542','2026-11-22 16:10:43.861542','2026-11-22 16:10:43.861542',255,'{"trigger": "", "role": "worker", "index": 0, "reason": "worker-0 ended with exit code 3.", "exit": {"code": 255, "sentence": "worker-0 ended with exit code 3.", "remedy": "Read the log of the task and find the first error in it. Wait for the next retry; it follows by itself.", "certainty": "certain", "blame": "your job", "raw_code": null, "signal": null, "oom": false, "fault": null, "permanent": false}, "next": "Not tried again: retryCount is 0."}',2,NULL,NULL,0,NULL,NULL);
INSERT INTO "jobs_attempt" VALUES(3,1,'application_3_3','2026-11-22 16:09:58.862622','2026-11-22 16:10:13.862622','2026-11-22 16:10:43.862622','2026-11-22 16:10:43.862622',-7351,'{"trigger": "", "role": "", "index": null, "reason": "Stopped.", "exit": {"code": -7351, "sentence": "Stopped.", "remedy": "Submit the job again to run it again.", "certainty": "certain", "blame": "nobody", "raw_code": null, "signal": null, "oom": false, "fault": null, "permanent": false}, "next": ""}',3,NULL,NULL,0,NULL,NULL);
INSERT INTO "jobs_attempt" VALUES(4,1,'application_4_4','2026-11-22 16:09:58.863559','2026-11-22 16:10:13.863559',NULL,NULL,NULL,'{}',4,NULL,NULL,0,NULL,NULL);
INSERT INTO "jobs_attempt" VALUES(5,1,'application_5_5','2026-11-22 16:09:58.877368',NULL,NULL,NULL,NULL,'{}',5,NULL,NULL,0,NULL,NULL);
INSERT INTO "jobs_attempt" VALUES(6,1,'application_6_6','2026-11-22 16:09:58.878960','2026-11-22 16:10:13.878960','2026-11-22 16:10:43.878960','2026-11-22 16:10:43.878960',0,'{"trigger": "", "role": "", "index": null, "reason": "", "exit": {"code": 0, "sentence": "", "remedy": "", "certainty": "certain", "blame": "nobody", "raw_code": null, "signal": null, "oom": false, "fault": null, "permanent": false}, "next": ""}',6,NULL,NULL,0,NULL,NULL);
CREATE TABLE "jobs_dependency" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "on_name" varchar(255) NOT NULL, "condition" varchar(8) NOT NULL, "job_id" bigint NOT NULL REFERENCES "jobs_job" ("id") DEFERRABLE INITIALLY DEFERRED, "on_id" bigint NULL REFERENCES "jobs_job" ("id") DEFERRABLE INITIALLY DEFERRED, "ended" varchar(10) NOT NULL, CONSTRAINT "one_dependency_per_job" UNIQUE ("job_id", "on_name"));
CREATE TABLE "jobs_discarded" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(64) NOT NULL, "name" varchar(255) NOT NULL, "app_ids" text NOT NULL CHECK ((JSON_VALID("app_ids") OR "app_ids" IS NULL)), "at" datetime NOT NULL);
CREATE TABLE "jobs_draft" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "title" varchar(255) NOT NULL, "sealed" text NOT NULL, "changed_at" datetime NOT NULL, "user_id" bigint NOT NULL REFERENCES "portal_user" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "jobs_event" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "at" datetime NOT NULL, "kind" varchar(40) NOT NULL, "attempt" integer unsigned NULL CHECK ("attempt" >= 0), "task" varchar(270) NOT NULL, "node" varchar(63) NOT NULL, "actor" varchar(64) NOT NULL, "before" varchar(12) NOT NULL, "after" varchar(12) NOT NULL, "reason" text NOT NULL, "data" text NOT NULL CHECK ((JSON_VALID("data") OR "data" IS NULL)), "job_id" bigint NULL REFERENCES "jobs_job" ("id") DEFERRABLE INITIALLY DEFERRED);
INSERT INTO "jobs_event" VALUES(1,'2026-11-22 16:09:58.858538','job.submitted',1,'','','alice','','','Submitted by alice.','{}',1);
INSERT INTO "jobs_event" VALUES(2,'2026-11-22 16:09:58.861542','job.submitted',1,'','','alice','','','Submitted by alice.','{}',2);
INSERT INTO "jobs_event" VALUES(3,'2026-11-22 16:09:58.862622','job.submitted',1,'','','alice','','','Submitted by alice.','{}',3);
INSERT INTO "jobs_event" VALUES(4,'2026-11-22 16:09:58.863559','job.submitted',1,'','','alice','','','Submitted by alice.','{}',4);
INSERT INTO "jobs_event" VALUES(5,'2026-11-22 16:09:58.877368','job.submitted',1,'','','alice','','','Submitted by alice.','{}',5);
INSERT INTO "jobs_event" VALUES(6,'2026-11-22 16:09:58.878960','job.submitted',1,'','','admin','','','Submitted by admin.','{}',6);
CREATE TABLE "jobs_holding" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "job_id" bigint NOT NULL, "username" varchar(64) NOT NULL, "job_name" varchar(255) NOT NULL, "vc" varchar(64) NOT NULL, "attempt" integer unsigned NOT NULL CHECK ("attempt" >= 0), "role" varchar(255) NOT NULL, "index" integer unsigned NOT NULL CHECK ("index" >= 0), "node" varchar(63) NOT NULL, "gpu_ids" text NOT NULL, "gpus" integer unsigned NOT NULL CHECK ("gpus" >= 0), "gpu_type" varchar(64) NOT NULL, "cpus" integer unsigned NOT NULL CHECK ("cpus" >= 0), "memory_mb" integer unsigned NOT NULL CHECK ("memory_mb" >= 0), "guest" bool NOT NULL, "waited" bigint NULL, "began" bigint NOT NULL, "ended" bigint NULL, "outcome" varchar(9) NOT NULL, "exit_code" integer NULL, "asked" text NOT NULL);
CREATE TABLE "jobs_job" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(64) NOT NULL, "name" varchar(255) NOT NULL, "vc" varchar(64) NOT NULL, "config" text NOT NULL, "spec" text NOT NULL CHECK ((JSON_VALID("spec") OR "spec" IS NULL)), "state" varchar(10) NOT NULL, "execution" varchar(5) NOT NULL, "stopped_by" varchar(64) NOT NULL, "attempt_number" integer unsigned NOT NULL CHECK ("attempt_number" >= 0), "user_retries" integer unsigned NOT NULL CHECK ("user_retries" >= 0), "platform_retries" integer unsigned NOT NULL CHECK ("platform_retries" >= 0), "resource_retries" integer unsigned NOT NULL CHECK ("resource_retries" >= 0), "exit_code" integer NULL, "total_tasks" integer unsigned NOT NULL CHECK ("total_tasks" >= 0), "total_roles" integer unsigned NOT NULL CHECK ("total_roles" >= 0), "total_gpus" integer unsigned NOT NULL CHECK ("total_gpus" >= 0), "created_at" datetime NOT NULL, "queued_at" datetime NOT NULL, "not_before" datetime NULL, "parked_until" datetime NULL, "started_at" datetime NULL, "completed_at" datetime NULL, "deleted_at" datetime NULL, "changed_at" datetime NOT NULL, "never" text NOT NULL, "published_at" datetime NULL, "is_legacy" bool NOT NULL, "guest_evictions" smallint unsigned NOT NULL CHECK ("guest_evictions" >= 0), "is_guest" bool NOT NULL, "priority" smallint NOT NULL, "queue_time" datetime NULL, "awaits" smallint unsigned NOT NULL CHECK ("awaits" >= 0), "unmet" text NOT NULL, "ends_by" datetime NULL, "forecast" text NULL CHECK ((JSON_VALID("forecast") OR "forecast" IS NULL)), "sweep_id" bigint NULL REFERENCES "jobs_sweep" ("id") DEFERRABLE INITIALLY DEFERRED, "evictions" smallint unsigned DEFAULT 0 NOT NULL CHECK ("evictions" >= 0));
INSERT INTO "jobs_job" VALUES(1,'alice','was-succeeded','vision','{
  "jobName": "was-succeeded",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "worker",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 1024,
      "gpuNumber": 1,
      "command": "sleep 60"
    }
  ]
}','{"jobName": "was-succeeded", "image": "longshore/sample:1", "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "taskRoles": [{"name": "worker", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 1024, "shmMB": 64, "gpuNumber": 1, "portList": [], "command": "sleep 60", "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "gpuType": "", "virtualCluster": "default", "retryCount": 0, "jobEnvs": {}, "extras": {}}','SUCCEEDED','START','',1,0,0,0,NULL,1,1,1,'2026-11-22 16:09:58.858538','2026-11-22 16:09:58.858538',NULL,NULL,'2026-11-22 16:10:13.858538','2026-11-22 16:10:43.858538',NULL,'2026-11-22 16:10:43.858538','','2026-11-22 16:09:58.858538',0,0,0,0,NULL,0,'',NULL,NULL,NULL,0);
INSERT INTO "jobs_job" VALUES(2,'alice','was-failed','vision','{
  "jobName": "was-failed",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "worker",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 1024,
      "gpuNumber": 1,
      "command": "sleep 60"
    }
  ]
}','{"jobName": "was-failed", "image": "longshore/sample:1", "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "taskRoles": [{"name": "worker", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 1024, "shmMB": 64, "gpuNumber": 1, "portList": [], "command": "sleep 60", "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "gpuType": "", "virtualCluster": "default", "retryCount": 0, "jobEnvs": {}, "extras": {}}','FAILED','START','',1,0,0,0,NULL,1,1,1,'2026-11-22 16:09:58.861542','2026-11-22 16:09:58.861542',NULL,NULL,'2026-11-22 16:10:13.861542','2026-11-22 16:10:43.861542',NULL,'2026-11-22 16:10:43.861542','','2026-11-22 16:09:58.861542',0,0,0,0,NULL,0,'',NULL,NULL,NULL,0);
INSERT INTO "jobs_job" VALUES(3,'alice','was-stopped','vision','{
  "jobName": "was-stopped",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "worker",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 1024,
      "gpuNumber": 1,
      "command": "sleep 60"
    }
  ]
}','{"jobName": "was-stopped", "image": "longshore/sample:1", "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "taskRoles": [{"name": "worker", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 1024, "shmMB": 64, "gpuNumber": 1, "portList": [], "command": "sleep 60", "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "gpuType": "", "virtualCluster": "default", "retryCount": 0, "jobEnvs": {}, "extras": {}}','STOPPED','START','',1,0,0,0,NULL,1,1,1,'2026-11-22 16:09:58.862622','2026-11-22 16:09:58.862622',NULL,NULL,'2026-11-22 16:10:13.862622','2026-11-22 16:10:43.862622',NULL,'2026-11-22 16:10:43.862622','','2026-11-22 16:09:58.862622',0,0,0,0,NULL,0,'',NULL,NULL,NULL,0);
INSERT INTO "jobs_job" VALUES(4,'alice','runs','default','{
  "jobName": "runs",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "worker",
      "taskNumber": 2,
      "cpuNumber": 1,
      "memoryMB": 1024,
      "gpuNumber": 1,
      "command": "sleep 60"
    }
  ]
}','{"jobName": "runs", "image": "longshore/sample:1", "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "taskRoles": [{"name": "worker", "taskNumber": 2, "cpuNumber": 1, "memoryMB": 1024, "shmMB": 64, "gpuNumber": 1, "portList": [], "command": "sleep 60", "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "gpuType": "", "virtualCluster": "default", "retryCount": 0, "jobEnvs": {}, "extras": {}}','RUNNING','START','',1,0,0,0,NULL,2,1,2,'2026-11-22 16:09:58.863559','2026-11-22 16:09:58.863559',NULL,NULL,'2026-11-22 16:10:13.863559',NULL,NULL,'2026-11-22 16:10:58.863559','','2026-11-22 16:09:58.863559',0,0,0,0,NULL,0,'',NULL,NULL,NULL,0);
INSERT INTO "jobs_job" VALUES(5,'alice','waits','default','{
  "jobName": "waits",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "worker",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 1024,
      "gpuNumber": 4,
      "command": "sleep 60"
    }
  ]
}','{"jobName": "waits", "image": "longshore/sample:1", "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "taskRoles": [{"name": "worker", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 1024, "shmMB": 64, "gpuNumber": 4, "portList": [], "command": "sleep 60", "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "gpuType": "", "virtualCluster": "default", "retryCount": 0, "jobEnvs": {}, "extras": {}}','WAITING','START','',1,0,0,0,NULL,1,1,4,'2026-11-22 16:09:58.877368','2026-11-22 16:09:58.877368',NULL,NULL,NULL,NULL,NULL,'2026-11-22 16:10:58.877368','','2026-11-22 16:09:58.877368',0,0,0,0,NULL,0,'',NULL,NULL,NULL,0);
INSERT INTO "jobs_job" VALUES(6,'admin','legacy','default','{
  "jobName": "legacy",
  "image": "longshore/sample:1",
  "taskRoles": [
    {
      "name": "worker",
      "taskNumber": 1,
      "cpuNumber": 1,
      "memoryMB": 1024,
      "gpuNumber": 0,
      "command": "sleep 60"
    }
  ]
}','{"jobName": "legacy", "image": "longshore/sample:1", "authFile": "", "dataDir": "", "outputDir": "", "codeDir": "", "taskRoles": [{"name": "worker", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 1024, "shmMB": 64, "gpuNumber": 0, "portList": [], "command": "sleep 60", "minFailedTaskCount": 1, "minSucceededTaskCount": null}], "gpuType": "", "virtualCluster": "default", "retryCount": 0, "jobEnvs": {}, "extras": {}}','SUCCEEDED','START','',1,0,0,0,NULL,1,1,0,'2026-11-22 16:09:58.878960','2026-11-22 16:09:58.878960',NULL,NULL,'2026-11-22 16:10:13.878960','2026-11-22 16:10:43.878960',NULL,'2026-11-22 16:10:43.878960','','2026-11-22 16:09:58.878960',1,0,0,0,NULL,0,'',NULL,NULL,NULL,0);
CREATE TABLE "jobs_jobkey" ("job_id" bigint NOT NULL PRIMARY KEY REFERENCES "jobs_job" ("id") DEFERRABLE INITIALLY DEFERRED, "public" text NOT NULL, "private" text NOT NULL);
CREATE TABLE "jobs_jobsecrets" ("job_id" bigint NOT NULL PRIMARY KEY REFERENCES "jobs_job" ("id") DEFERRABLE INITIALLY DEFERRED, "sealed" text NOT NULL);
CREATE TABLE "jobs_pageshare" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "role" varchar(255) NOT NULL, "index" integer unsigned NOT NULL CHECK ("index" >= 0), "label" varchar(255) NOT NULL, "kind" varchar(4) NOT NULL, "name" varchar(64) NOT NULL, "created_at" datetime NOT NULL, "job_id" bigint NOT NULL, CONSTRAINT "one_share_per_name" UNIQUE ("job_id", "role", "index", "label", "kind", "name"));
CREATE TABLE "jobs_pagevisit" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "role" varchar(255) NOT NULL, "index" integer unsigned NOT NULL CHECK ("index" >= 0), "label" varchar(255) NOT NULL, "session" varchar(64) NOT NULL, "token" bigint NULL, "ticket" varchar(64) NOT NULL UNIQUE, "cookie" varchar(64) NULL UNIQUE, "expires_at" datetime NOT NULL, "job_id" bigint NOT NULL, "user_id" bigint NOT NULL);
CREATE TABLE "jobs_prediction" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "job_id" bigint NOT NULL, "attempt" integer unsigned NOT NULL CHECK ("attempt" >= 0), "made" bigint NOT NULL, "p10" bigint NOT NULL, "p50" bigint NOT NULL, "p90" bigint NOT NULL, "guess" bigint NULL, "started" bigint NULL, "by_limit" bigint NULL, "vc" varchar(64) DEFAULT '' NOT NULL, "played" text NULL CHECK ((JSON_VALID("played") OR "played" IS NULL)));
CREATE TABLE "jobs_replay" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(64) NOT NULL, "asked" text NOT NULL CHECK ((JSON_VALID("asked") OR "asked" IS NULL)), "made" bigint NOT NULL, "beat" bigint NULL, "progress" smallint unsigned NOT NULL CHECK ("progress" >= 0), "result" text NULL CHECK ((JSON_VALID("result") OR "result" IS NULL)), "error" text NOT NULL);
CREATE TABLE "jobs_sweep" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(64) NOT NULL, "name" varchar(255) NOT NULL, "config" text NOT NULL, "parameters" text NOT NULL CHECK ((JSON_VALID("parameters") OR "parameters" IS NULL)), "created_at" datetime NOT NULL, CONSTRAINT "one_sweep_per_name" UNIQUE ("username", "name"));
CREATE TABLE "jobs_task" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "role" varchar(255) NOT NULL, "index" integer unsigned NOT NULL CHECK ("index" >= 0), "state" varchar(10) NOT NULL, "changed_at" datetime NOT NULL, "node" varchar(63) NOT NULL, "address" varchar(255) NOT NULL, "gpu_ids" text NOT NULL CHECK ((JSON_VALID("gpu_ids") OR "gpu_ids" IS NULL)), "ports" text NOT NULL CHECK ((JSON_VALID("ports") OR "ports" IS NULL)), "ordered_at" datetime NULL, "claim" varchar(32) NOT NULL, "claimed_until" datetime NULL, "fact_at" datetime NULL, "progress" varchar(120) NOT NULL, "fault" text NULL CHECK ((JSON_VALID("fault") OR "fault" IS NULL)), "container_name" varchar(200) NOT NULL, "container_id" varchar(64) NOT NULL, "container_started_at" datetime NULL, "exit_code" integer NULL, "exit" text NOT NULL CHECK ((JSON_VALID("exit") OR "exit" IS NULL)), "finished_at" datetime NULL, "collected" bool NOT NULL, "attempt_id" bigint NOT NULL REFERENCES "jobs_attempt" ("id") DEFERRABLE INITIALLY DEFERRED, "job_id" bigint NOT NULL REFERENCES "jobs_job" ("id") DEFERRABLE INITIALLY DEFERRED, "held_at" datetime NULL, "released_at" datetime NULL, CONSTRAINT "one_task_per_index" UNIQUE ("attempt_id", "role", "index"));
INSERT INTO "jobs_task" VALUES(1,'worker',0,'SUCCEEDED','2026-11-22 16:10:43.858538','gpu-01','10.0.0.1','[]','{"http": [30000], "ssh": [30001]}',NULL,'',NULL,NULL,'',NULL,'longshore-alice-was-succeeded-1-worker-0','','2026-11-22 16:10:14.858538',0,'{}','2026-11-22 16:10:43.858538',1,1,1,NULL,NULL);
INSERT INTO "jobs_task" VALUES(2,'worker',0,'FAILED','2026-11-22 16:10:43.861542','gpu-01','10.0.0.1','[]','{"http": [30000], "ssh": [30001]}',NULL,'',NULL,NULL,'',NULL,'longshore-alice-was-failed-1-worker-0','','2026-11-22 16:10:14.861542',255,'{"code": 255, "sentence": "worker-0 ended with exit code 3.", "remedy": "Read the log of the task and find the first error in it. Wait for the next retry; it follows by itself.", "certainty": "certain", "blame": "your job", "raw_code": null, "signal": null, "oom": false, "fault": null, "permanent": false}','2026-11-22 16:10:43.861542',1,2,2,NULL,NULL);
INSERT INTO "jobs_task" VALUES(3,'worker',0,'STOPPED','2026-11-22 16:10:43.862622','gpu-01','10.0.0.1','[]','{"http": [30000], "ssh": [30001]}',NULL,'',NULL,NULL,'',NULL,'longshore-alice-was-stopped-1-worker-0','','2026-11-22 16:10:14.862622',-7400,'{}','2026-11-22 16:10:43.862622',1,3,3,NULL,NULL);
INSERT INTO "jobs_task" VALUES(4,'worker',0,'RUNNING','2026-11-22 16:10:13.863559','gpu-01','10.0.0.1','["0"]','{"http": [30000], "ssh": [30001]}',NULL,'',NULL,NULL,'',NULL,'longshore-alice-runs-1-worker-0','','2026-11-22 16:10:14.863559',NULL,'{}',NULL,0,4,4,NULL,NULL);
INSERT INTO "jobs_task" VALUES(5,'worker',1,'RUNNING','2026-11-22 16:10:13.863559','gpu-01','10.0.0.1','["1"]','{"http": [30002], "ssh": [30003]}',NULL,'',NULL,NULL,'',NULL,'longshore-alice-runs-1-worker-1','','2026-11-22 16:10:14.863559',NULL,'{}',NULL,0,4,4,NULL,NULL);
INSERT INTO "jobs_task" VALUES(6,'worker',0,'WAITING','2026-11-22 16:10:13.877368','','','[]','{}',NULL,'of nobody','2026-11-23 16:10:58.885184',NULL,'',NULL,'','',NULL,NULL,'{}',NULL,0,5,5,NULL,NULL);
INSERT INTO "jobs_task" VALUES(7,'worker',0,'SUCCEEDED','2026-11-22 16:10:43.878960','','','[]','{}',NULL,'',NULL,NULL,'',NULL,'longshore-admin-legacy-1-worker-0','','2026-11-22 16:10:14.878960',0,'{}','2026-11-22 16:10:43.878960',1,6,6,NULL,NULL);
CREATE TABLE "jobs_template" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "vc" varchar(64) NOT NULL, "name" varchar(80) NOT NULL, "config" text NOT NULL, "used" integer unsigned NOT NULL CHECK ("used" >= 0), "changed_at" datetime NOT NULL, "user_id" bigint NULL REFERENCES "portal_user" ("id") DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE "portal_apitoken" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "id_hash" varchar(64) NOT NULL UNIQUE, "name" varchar(100) NOT NULL, "created_at" datetime NOT NULL, "expires_at" datetime NOT NULL, "last_used_at" datetime NULL, "revoked_at" datetime NULL, "user_id" bigint NOT NULL REFERENCES "portal_user" ("id") DEFERRABLE INITIALLY DEFERRED);
INSERT INTO "portal_apitoken" VALUES(1,'b5b4b755f6d316b9f3b63f75723cc959b9aac5657662467fcba7eaf8cd42e965','kept','2026-11-22 16:10:58.851689','2076-11-09 16:10:58',NULL,NULL,2);
CREATE TABLE "portal_auditevent" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "at" datetime NOT NULL, "actor" varchar(64) NOT NULL, "action" varchar(40) NOT NULL, "object" varchar(200) NOT NULL, "ip" char(39) NULL, "data" text NOT NULL CHECK ((JSON_VALID("data") OR "data" IS NULL)));
CREATE TABLE "portal_formeruser" ("username" varchar(64) NOT NULL PRIMARY KEY);
CREATE TABLE "portal_heartbeat" ("name" varchar(20) NOT NULL PRIMARY KEY, "at" datetime NOT NULL, "report" text NOT NULL CHECK ((JSON_VALID("report") OR "report" IS NULL)));
CREATE TABLE "portal_host" ("id" varchar(32) NOT NULL PRIMARY KEY, "name" varchar(255) NOT NULL, "url" text NOT NULL, "at" datetime NOT NULL, "skew" real NULL, "report" text NOT NULL CHECK ((JSON_VALID("report") OR "report" IS NULL)));
CREATE TABLE "portal_leaserow" ("name" varchar(20) NOT NULL PRIMARY KEY, "epoch" bigint unsigned NOT NULL CHECK ("epoch" >= 0), "beats" bigint unsigned NOT NULL CHECK ("beats" >= 0), "holder" varchar(200) NOT NULL);
CREATE TABLE "portal_localfolder" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "path" text NOT NULL UNIQUE, "marker" varchar(32) NOT NULL);
CREATE TABLE "portal_shared" ("name" varchar(255) NOT NULL PRIMARY KEY, "value" text NOT NULL);
CREATE TABLE "portal_terminal" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "username" varchar(64) NOT NULL, "token" varchar(32) NOT NULL UNIQUE, "credential" varchar(64) NOT NULL, "task" bigint NOT NULL, "where" varchar(600) NOT NULL, "node" varchar(63) NOT NULL, "container" varchar(200) NOT NULL, "pid" integer unsigned NULL CHECK ("pid" >= 0), "owner" varchar(64) NOT NULL, "opened_at" datetime NOT NULL, "seen_at" datetime NOT NULL);
CREATE TABLE "portal_ticket" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "id_hash" varchar(64) NOT NULL UNIQUE, "path" varchar(1000) NOT NULL, "credential" varchar(100) NOT NULL, "expires_at" datetime NOT NULL);
CREATE TABLE "portal_user" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "password" varchar(128) NOT NULL, "last_login" datetime NULL, "username" varchar(64) NOT NULL UNIQUE, "email" varchar(254) NOT NULL, "is_admin" bool NOT NULL, "is_active" bool NOT NULL, "created_at" datetime NOT NULL, "extension" text NOT NULL CHECK ((JSON_VALID("extension") OR "extension" IS NULL)), "has_github_pat" bool NOT NULL, "epoch" integer unsigned NOT NULL CHECK ("epoch" >= 0), "store_quota" bigint NULL);
INSERT INTO "portal_user" VALUES(1,'argon2$argon2id$v=19$m=19456,t=2,p=1$aWdreVN6UXdOOG1ZZVo5TzhGMUpuSA$2Nj8sgpoVF1TsaUnv5HpWdvn533kyNcDmnPQn+HImLk',NULL,'admin','',1,1,'2026-11-22 16:10:58.802468','{}',0,0,NULL);
INSERT INTO "portal_user" VALUES(2,'argon2$argon2id$v=19$m=19456,t=2,p=1$SkdYM2ppN0loY1Vzb25WTVYwR1c0Sg$Uf8VMWZPCePT1HWhdkjTqQ0uPvHUbpcsysTeEPvIlV0',NULL,'alice','',0,1,'2026-11-22 16:10:58.850510','{}',0,0,NULL);
CREATE TABLE "portal_userkey" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT, "name" varchar(100) NOT NULL, "text" text NOT NULL, "fingerprint" varchar(64) NOT NULL, "created_at" datetime NOT NULL, "user_id" bigint NOT NULL REFERENCES "portal_user" ("id") DEFERRABLE INITIALLY DEFERRED, CONSTRAINT "one_key_per_user" UNIQUE ("user_id", "fingerprint"));
CREATE UNIQUE INDEX "django_content_type_app_label_model_76bd3d3b_uniq" ON "django_content_type" ("app_label", "model");
CREATE UNIQUE INDEX "auth_group_permissions_group_id_permission_id_0cd325b0_uniq" ON "auth_group_permissions" ("group_id", "permission_id");
CREATE INDEX "auth_group_permissions_group_id_b120cbf9" ON "auth_group_permissions" ("group_id");
CREATE INDEX "auth_group_permissions_permission_id_84c5c92e" ON "auth_group_permissions" ("permission_id");
CREATE UNIQUE INDEX "auth_permission_content_type_id_codename_01ab375a_uniq" ON "auth_permission" ("content_type_id", "codename");
CREATE INDEX "auth_permission_content_type_id_2f476e4b" ON "auth_permission" ("content_type_id");
CREATE INDEX "axes_accessattempt_user_agent_ad89678b" ON "axes_accessattempt" ("user_agent");
CREATE INDEX "axes_accessattempt_ip_address_10922d9c" ON "axes_accessattempt" ("ip_address");
CREATE INDEX "axes_accessattempt_username_3f2d4ca0" ON "axes_accessattempt" ("username");
CREATE UNIQUE INDEX "axes_accessattempt_username_ip_address_user_agent_8ea22282_uniq" ON "axes_accessattempt" ("username", "ip_address", "user_agent");
CREATE INDEX "axes_accessfailurelog_user_agent_ea145dda" ON "axes_accessfailurelog" ("user_agent");
CREATE INDEX "axes_accessfailurelog_ip_address_2e9f5a7f" ON "axes_accessfailurelog" ("ip_address");
CREATE INDEX "axes_accessfailurelog_username_a8b7e8a4" ON "axes_accessfailurelog" ("username");
CREATE INDEX "axes_accesslog_user_agent_0e659004" ON "axes_accesslog" ("user_agent");
CREATE INDEX "axes_accesslog_ip_address_86b417e5" ON "axes_accesslog" ("ip_address");
CREATE INDEX "axes_accesslog_username_df93064b" ON "axes_accesslog" ("username");
CREATE INDEX "clusters_allocation_node_id_72c4fba9" ON "clusters_allocation" ("node_id");
CREATE INDEX "clusters_vcgrant_vc_id_e836e251" ON "clusters_vcgrant" ("vc_id");
CREATE INDEX "clusters_groupmember_group_id_efd54903" ON "clusters_groupmember" ("group_id");
CREATE INDEX "clusters_keptimage_owner_01109536" ON "clusters_keptimage" ("owner");
CREATE INDEX "clusters_keptimage_until_77359b89" ON "clusters_keptimage" ("until");
CREATE INDEX "clusters_keptimage_node_id_05c5aeaf" ON "clusters_keptimage" ("node_id");
CREATE INDEX "clusters_node_dedicated_to_id_10699ac4" ON "clusters_node" ("dedicated_to_id");
CREATE INDEX "clusters_node_cluster_id_da46f92d" ON "clusters_node" ("cluster_id");
CREATE INDEX "success_index" ON "django_q_task" ("group", "name", "func") WHERE "success";
CREATE INDEX "portal_auditevent_at_ec19f308" ON "portal_auditevent" ("at");
CREATE INDEX "portal_apitoken_user_id_26e34258" ON "portal_apitoken" ("user_id");
CREATE INDEX "jobs_event_job_id_fd625fcd" ON "jobs_event" ("job_id");
CREATE INDEX "event_by_job" ON "jobs_event" ("job_id", "id");
CREATE INDEX "jobs_task_attempt_id_6cfcc4dd" ON "jobs_task" ("attempt_id");
CREATE INDEX "jobs_task_job_id_6fefee23" ON "jobs_task" ("job_id");
CREATE INDEX "task_by_job" ON "jobs_task" ("job_id", "state");
CREATE INDEX "task_leftover" ON "jobs_task" ("id") WHERE (NOT "collected" AND "state" IN ('SUCCEEDED', 'FAILED', 'STOPPED'));
CREATE INDEX "task_live" ON "jobs_task" ("id") WHERE "state" IN ('STARTING', 'RUNNING', 'STOPPING');
CREATE INDEX "jobs_dependency_job_id_482469db" ON "jobs_dependency" ("job_id");
CREATE INDEX "jobs_dependency_on_id_92a36e78" ON "jobs_dependency" ("on_id");
CREATE INDEX "holding_by_time" ON "jobs_holding" ("ended", "began");
CREATE UNIQUE INDEX "one_template_per_name" ON "jobs_template" ("user_id", "name") WHERE "vc" = '';
CREATE UNIQUE INDEX "one_template_per_vc_and_name" ON "jobs_template" ("vc", "name") WHERE NOT ("vc" = '');
CREATE INDEX "jobs_draft_user_id_561b7fd0" ON "jobs_draft" ("user_id");
CREATE INDEX "jobs_template_user_id_294e1078" ON "jobs_template" ("user_id");
CREATE INDEX "jobs_pagevisit_expires_at_68beca62" ON "jobs_pagevisit" ("expires_at");
CREATE INDEX "jobs_pagevisit_job_id_e9d4f150" ON "jobs_pagevisit" ("job_id");
CREATE INDEX "jobs_pagevisit_user_id_0b2c70a4" ON "jobs_pagevisit" ("user_id");
CREATE INDEX "jobs_pageshare_job_id_5f6cd9f9" ON "jobs_pageshare" ("job_id");
CREATE INDEX "jobs_attempt_job_id_b587cf59" ON "jobs_attempt" ("job_id");
CREATE INDEX "attempt_winding_down" ON "jobs_attempt" ("job_id") WHERE ("completed_at" IS NULL AND "decided_at" IS NOT NULL);
CREATE INDEX "attempt_undiagnosed" ON "jobs_attempt" ("diagnosis_due") WHERE "diagnosis_due" IS NOT NULL;
CREATE INDEX "prediction_open" ON "jobs_prediction" ("job_id", "attempt") WHERE "started" IS NULL;
CREATE INDEX "prediction_by_age" ON "jobs_prediction" ("made");
CREATE UNIQUE INDEX "one_job_per_name" ON "jobs_job" ("username", "name") WHERE "deleted_at" IS NULL;
CREATE UNIQUE INDEX "one_legacy_job_per_name" ON "jobs_job" ("name") WHERE ("deleted_at" IS NULL AND "is_legacy");
CREATE INDEX "job_by_user" ON "jobs_job" ("username", "created_at" DESC);
CREATE INDEX "job_by_state" ON "jobs_job" ("state", "execution", "created_at" DESC, "id" DESC) WHERE "deleted_at" IS NULL;
CREATE INDEX "job_by_age" ON "jobs_job" ("created_at" DESC, "id" DESC, "username", "name", "vc", "state", "execution") WHERE "deleted_at" IS NULL;
CREATE INDEX "job_live" ON "jobs_job" ("id", "state", "execution", "attempt_number", "changed_at", "not_before", "parked_until", "deleted_at") WHERE ("state" IN ('WAITING', 'RUNNING') OR "deleted_at" IS NOT NULL);
CREATE INDEX "job_unpublished" ON "jobs_job" ("created_at") WHERE "published_at" IS NULL;
CREATE INDEX "job_by_end" ON "jobs_job" ("completed_at" DESC, "id" DESC, "username", "state") WHERE "deleted_at" IS NULL;
CREATE INDEX "job_by_sweep" ON "jobs_job" ("sweep_id", "id") WHERE "sweep_id" IS NOT NULL;
CREATE INDEX "portal_userkey_user_id_709ede71" ON "portal_userkey" ("user_id");
CREATE INDEX "portal_terminal_username_d744ba8d" ON "portal_terminal" ("username");
CREATE INDEX "portal_ticket_expires_at_60141e40" ON "portal_ticket" ("expires_at");
CREATE INDEX "django_session_expire_date_a5c62663" ON "django_session" ("expire_date");
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('django_migrations',95);
INSERT INTO "sqlite_sequence" VALUES('django_content_type',49);
INSERT INTO "sqlite_sequence" VALUES('auth_permission',196);
INSERT INTO "sqlite_sequence" VALUES('auth_group',0);
INSERT INTO "sqlite_sequence" VALUES('axes_accessattempt',0);
INSERT INTO "sqlite_sequence" VALUES('axes_accesslog',0);
INSERT INTO "sqlite_sequence" VALUES('clusters_virtualcluster',2);
INSERT INTO "sqlite_sequence" VALUES('clusters_node',1);
INSERT INTO "sqlite_sequence" VALUES('django_q_schedule',0);
INSERT INTO "sqlite_sequence" VALUES('jobs_task',7);
INSERT INTO "sqlite_sequence" VALUES('jobs_dependency',0);
INSERT INTO "sqlite_sequence" VALUES('jobs_holding',0);
INSERT INTO "sqlite_sequence" VALUES('jobs_attempt',6);
INSERT INTO "sqlite_sequence" VALUES('jobs_prediction',0);
INSERT INTO "sqlite_sequence" VALUES('jobs_job',6);
INSERT INTO "sqlite_sequence" VALUES('portal_user',2);
INSERT INTO "sqlite_sequence" VALUES('portal_apitoken',1);
INSERT INTO "sqlite_sequence" VALUES('clusters_vcgrant',1);
INSERT INTO "sqlite_sequence" VALUES('jobs_event',6);
INSERT INTO "sqlite_sequence" VALUES('clusters_allocation',2);
COMMIT;
