# The main entry point. `make` lists the targets; cargo and `cargo lab` do all the work.

STAGE  ?= 01
KERNEL ?= 6.12
IO     ?=
ARGS   ?=
COMPILERS ?=
FROM   ?=
TO     ?= 02
SUITES ?= bookworm trixie sid
# Only Cargo knows where it builds: settings outside of this folder may name another one.
TARGET = $(shell cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\).*/\1/')
WORKSHOP = $(TARGET)/workshop
# Before make 4.4, a shell here gets no exported variables.
DRIVER = $(shell CARGO_ENCODED_RUSTFLAGS= cargo build --quiet --package lab --bin lab --message-format json | sed -n 's|.*"executable":"\([^"]*/lab\)".*|\1|p')

# Instead of the user's own flags, as the lab compiles: a guest's processor may lack what `-C target-cpu=native` makes use of.
export CARGO_ENCODED_RUSTFLAGS :=

.PHONY: help setup setup-test driver kernel kernels arm64 test-arm64 build check demo programs test page-test preview-test compilers-test soak lint diff run lab docs page present print bundle bundle-test workshop workshop-test tools distro-test release release-test publish-test deny vmlinux clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## Install what is missing (apt on Debian and Ubuntu)
	@lab/setup

build: driver ## Build everything but the book
	cargo build

check: setup ## Compile all of it, tests and documentation included, and make no program
	cargo check --workspace --all-targets --all-features
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps

demo: driver ## Boot a kernel, run most stages and three examples, and check what they print against the truth
	@echo 'Compiling the stages, and meanwhile fetching what is missing, such as the emulator and the kernel ...'
	@$(MAKE) --no-print-directory --jobs=2 programs kernel DRIVER="$(DRIVER)"
	@cargo lab demo --kernel $(KERNEL)

# What the demo runs.
programs: driver
	@$(DRIVER) demo --no-run

# Run all, even if one fails. The command of the explainer has its own line, because in another one its feature would make Cargo
# compile the lab again.
test: setup-test build kernels ## Run every test, on all kernels
	@status=0; \
	cargo test --no-fail-fast || status=$$?; \
	cargo test --no-fail-fast --package ask --package blkbook --package book --package class --package mystery --package questions --package upkeep --package workshop || status=$$?; \
	cargo test --package bpf-refusal --features cli --test command || status=$$?; \
	exit $$status

page-test: build kernel ## Work in the workshop as a learner does, in a real browser
	@lab/setup page
	cargo test --package workshop --test page -- --test-threads=1

preview-test: build kernels ## Run the tests on kernels that are not released yet
	LAB_PREVIEW=1 cargo test --package lab --test kernel

# The cases that run every program and every exercise, and those of the clinic, whose programs kernels judge otherwise if a
# newer clang compiles them.
compilers-test: build kernels ## Compile every program with the oldest and the newest clang, and check it on all kernels
	@[ -n "$(COMPILERS)" ] || lab/setup compilers
	@names="$(COMPILERS)"; \
	names=$${names:-$$(ls /usr/bin | grep -x 'clang-[0-9]*' | sort -V | sed -n '1p;$$p' | uniq)}; \
	[ -n "$$names" ] || { echo 'Error: there is no clang-NUMBER in /usr/bin' >&2; exit 1; }; \
	echo With $$names; status=0; \
	for name in $$names; do for cases in _is_right exercise_ examples_count ctracer_lives biowhere_has_each hello_ bigreads_has \
		::clinic; do \
		CLANG="$$name" LAB_SOAK=1 cargo test --package lab --test kernel -- $$cases || status=$$?; \
	done; done; \
	exit $$status

soak: build kernels ## Run the long and heavy tests too
	LAB_SOAK=1 cargo test --package lab --test kernel

lint: setup ## Check style and lints
	cargo fmt --all --check
	@# A build script finds these, so Cargo doesn't.
	rustfmt --check --edition 2024 stages/*/check.rs examples/*/check.rs
	cargo clippy --workspace --all-targets -- -D warnings
	@# Cargo leaves these out, because only `make page-test`, `workshop-test` and `bundle-test` run them.
	cargo clippy --package workshop --test page --test image --package class --test whole -- -D warnings
	@# Only this builds the command.
	cargo clippy --package bpf-refusal --all-targets --all-features -- -D warnings
	@git ls-files --error-unmatch '*.bpf.[ch]' >/dev/null
	clang-format --dry-run -Werror $$(git ls-files '*.bpf.[ch]')

diff: setup ## Show what a stage changes: make diff TO=03 [FROM=02, by default its parent]
	@cargo lab diff $(FROM) $(TO)

run: driver kernel ## Run a stage in the lab: make run STAGE=03 [KERNEL=7.2] [IO=sync] [ARGS="--lines 9"]
	@cargo lab run $(STAGE) --kernel $(KERNEL) $(if $(IO),--io "$(IO)") -- $(ARGS)

lab: build kernel ## Open a root shell in the lab: make lab [KERNEL=7.2]
	@cargo lab shell --kernel $(KERNEL)

docs: setup ## Build the book into target/book (open index.html there)
	@cargo run --quiet --package book

page: ## Check and bundle the scripts of the workshop's page (needs npm)
	cd lab/workshop/page && npm ci && npm run build

present: ## Check and bundle the scripts of the book and of the projector's view (needs npm)
	cd docs/present && npm ci && npm run build

print: setup-test ## Make PDFs of the book, the exercises, the plans, the glossary and a seat card in target/print
	@cargo run --quiet --package book -- --print

bundle: kernels ## Make the room kit for USB sticks: make bundle [ARGS="--kernels 6.12 --with-sources"]
	@cargo class bundle $(ARGS)

bundle-test: setup-test build kernels docs ## Test the room kit in an empty Debian without a network (root, 20 minutes)
	cargo test --package class --test whole -- --test-threads=1

workshop: kernel docs ## Make a kit with the workshop in target/workshop: make workshop [KERNEL=7.2] [ARGS="--arch arm64"]
	@cargo class bundle --kernels $(KERNEL) --with-workshop --out $(WORKSHOP) $(ARGS)

# The tests run without a network, and with them the browser.
workshop-test: build ## Test that kit in an empty Debian without a network (root; make workshop first)
	@lab/setup test
	[ -e $(WORKSHOP)-debian/usr/bin/qemu-system-x86_64 ] || \
		PATH=$$PATH:/usr/sbin:/sbin debootstrap --variant=minbase --include=qemu-system-x86,qemu-system-arm bookworm $(WORKSHOP)-debian
	cargo test --no-run --package workshop --test image
	WORKSHOP_KIT=$(abspath $(WORKSHOP)) WORKSHOP_KERNEL=$(KERNEL) unshare --net --mount sh -c 'busybox ip link set lo up && \
		exec cargo test --offline --package workshop --test image -- --test-threads=1 --nocapture'

tools: setup driver ## Make blkbook, one file with all tools, to take to other machines: make tools [ARCH=arm64]
	@cargo lab tools $(if $(ARCH),--arch $(ARCH)) $(if $(MIRROR),--mirror $(MIRROR))

distro-test: setup-test ## Follow the README in new Debians, and record the result: make distro-test [SUITES=sid] (root)
	@lab/distro-test $(SUITES)

# Cargo's own tools, which only maintainers need.
CARGO_TOOLS = $(TARGET)/cargo-tools

release: setup-test kernels driver ## Make the files of a release in target/dist (20 minutes)
	@lab/setup arm64
	@cargo install --quiet --locked --root $(CARGO_TOOLS) cargo-cyclonedx@0.5.9
	@PATH=$$PATH:$(CARGO_TOOLS)/bin lab/release

release-test: setup-test kernels ## Test these files: in empty Debians, with busybox alone, and the kits (root)
	@lab/setup arm64
	@lab/release-test

# Not a part of `make lint`: to compile it takes minutes, advisories come when nobody changes anything, and it needs the network.
deny: ## Look for advisories about the crates we use, and check their licenses and sources
	@cargo install --quiet --locked --root $(CARGO_TOOLS) cargo-deny@0.20.2
	@PATH=$$PATH:$(CARGO_TOOLS)/bin cargo deny check

# Not a part of `make test`, because it needs the network. What is not committed yet counts, too.
publish-test: ## Check that the explainer of refusals could be published as a crate
	cargo publish --dry-run --allow-dirty --all-features --package bpf-refusal

arm64: driver ## Prepare guests of arm64: cargo lab run 03 --arch arm64
	@lab/setup arm64
	@cargo lab build --arch arm64 $(if $(MIRROR),--mirror $(MIRROR))
	@$(DRIVER) kernels --arch arm64 --fetch $(if $(MIRROR),--mirror $(MIRROR))

test-arm64: arm64 ## Run the tests on kernels of arm64
	LAB_ARCH=arm64 cargo test --package lab --test kernel

vmlinux: kernel ## Generate vmlinux.h from the default kernel's types
	@cargo upkeep vmlinux

clean: ## Remove what was built (but not the kernels: cargo lab kernels shows where they are)
	cargo clean

setup-test:
	@lab/setup test

# The lab's driver, which can fetch a kernel while the stages compile.
driver:
	@lab/setup build
	@[ -e "$(TARGET)/CACHEDIR.TAG" ] || echo 'Compiling the lab. The first time, this and the stages take one to three minutes ...'
	cargo build --package lab --bin lab

# The kernel for the other targets, and all kernels of the matrix. Once they are here, you need no network.
kernel: driver setup
	@case "$(KERNEL)" in */*) ;; *) $(DRIVER) kernels --fetch $(KERNEL) $(if $(MIRROR),--mirror $(MIRROR)) ;; esac

kernels: driver setup
	@$(DRIVER) kernels --fetch $(if $(MIRROR),--mirror $(MIRROR))
