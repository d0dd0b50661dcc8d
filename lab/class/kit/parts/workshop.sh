# shellcheck shell=sh
# ./lab workshop: a guest with the exercises, a compiler, and a server for the browser. The guest has no disk for the
# work, because the stages would trace it. QEMU starts the script keep when the guest connects to an address of its
# network, and that reads and writes the work. Part of ../lab.

# The folder of the work, which only the user can read.
kept=${XDG_CACHE_HOME:-${HOME:-/nowhere}/.cache}/bpf-storage-workbook/workshop shared=''
# How much room the work may take there, and how much memory the machine needs, in MiB.
need_work=200 need_workshop=2300
# The ports that we try if the user names none and the last one is taken.
port='' first_port=8017 last_port=8037
# The oldest browsers that have what the page uses.
need_firefox=115 need_chromium=111
url_limit=${LAB_URL_LIMIT:-120}
fresh='' no_browser=''

workshop() {
	# The arguments were encoded, so they have no blanks.
	# shellcheck disable=SC2046
	set -- $(echo "$argv" | tr ',' ' ')
	while shift && [ $# -gt 0 ]; do
		case $1 in
		--port)
			take_port "${2:-}"
			shift
			;;
		--port=*) take_port "${1#*=}" ;;
		--fresh) fresh=yes ;;
		--no-browser) no_browser=yes ;;
		*) fail "there is no option $1 of ./lab workshop" '' 'list the options: ./lab --help' ;;
		esac
	done
	root=workshop need_memory=$need_workshop or_less='; or work in a shell, which needs 700 MiB: ./lab'
	[ -e "$kit/$arch/workshop" ] || fail "this kit has no workshop" "$kit/$arch/workshop does not exist" \
		'work in a shell: ./lab; or make a kit with a workshop: cargo class bundle --with-workshop'
	# The address of the workshop has its secret, and the work belongs to nobody else, either.
	mask=$(umask)
	umask 077
	said=$({ mkdir -p "$kept" && chmod 700 "$kept" && : >"$kept/.try" && rm "$kept/.try"; } 2>&1) ||
		fail "the folder for your work can't be made" "$said" 'name another folder: XDG_CACHE_HOME=FOLDER ./lab workshop'
	kept=$(cd "$kept" && pwd -P) || exit 1
	join
	room_in "$kept"
	[ "${room:-$need_work}" -ge "$need_work" ] || fail "there is no room for your work" \
		"$kept has $room MiB, and your work may take $need_work MiB" \
		'free some space there, or name another folder: XDG_CACHE_HOME=FOLDER ./lab workshop'
	# The guest has more to unpack.
	boot_limit=${LAB_BOOT_LIMIT:-300} help_limit=${LAB_HELP_LIMIT:-40} apart=''
	run
}

take_port() {
	port=$1
	case $port in
	'' | *[!0-9]*) fail "--port needs a number" "it was called with ${port:-none}" 'name one between 1024 and 65535, or leave out --port' ;;
	1719 | 172[03] | 2049 | 3659 | 4045 | 4190 | 506[01] | 6000 | 6566 | 666[5-9] | 6679 | 6697 | 10080)
		fail "port $port can't be used" 'browsers block it' 'name another one, or leave out --port'
		;;
	esac
}

# Once $tmp is there: claims the work for this launcher, saves what the last session wrote, and chooses a port.
open_work() {
	: >"$tmp/.workshop"
	# Only one launcher can make this file.
	until (set -C && echo "$tmp" >"$kept/running") 2>/dev/null; do
		# A launcher that has just made it has yet to write into it.
		[ -s "$kept/running" ] || sleep 1
		join
		rm -f "$kept/running" || exit 1
	done
	claim=$kept/running
	if [ -n "$fresh" ]; then
		rm -f "$kept/work.zip" || exit 1
		echo "Discarded the work that was in $kept" >&2
	fi
	# A copy: somebody may pull the stick out.
	rm -f "$kept"/work.new.* && cp "$kit/parts/keep" "$kept/keep" || exit 1
	choose_port
	shared=yes
	for_guest
}

# What the guest starts: the server, which offers the kit's kernels.
for_guest() { argv=workshop,--port,$port,--kernel,$kernel,--kernels,$(encode "$(kernels | tr -d ' ')"); }

# Whether the learner has chosen another kernel in the page. It is then the one to boot, with the work as it is now.
next_kernel() {
	next=$(sed -n 's/^next //p' "$tmp/status")
	case "$status$asked:$next" in 0: | 0:*[!A-Za-z0-9._-]*) return 1 ;; 0:*) ;; *) return 1 ;; esac
	# The page is open already.
	kernel=$next no_browser=yes
	look_for_kernel
	for_guest
}

# Chooses a free port: the user's, or the last one, because the browser knows the page by it, or one of a few others.
choose_port() {
	if [ -n "$port" ]; then
		said=$(try_port 2>&1 >/dev/null) || taken "$said"
		return
	fi
	port=$(cat "$kept/port" 2>/dev/null)
	next=$first_port
	case $port in '' | *[!0-9]*) port=$first_port next=$((first_port + 1)) ;; esac
	until said=$(try_port 2>&1 >/dev/null); do
		case $said in
		*'host forwarding rule'*) ;;
		*) fail "this QEMU has no network for the workshop" "$said" "install another QEMU, or work in a shell: ./lab" ;;
		esac
		[ $next -le $last_port ] || fail "no port is free for the workshop" "$said" 'name one that is: --port NUMBER'
		port=$next next=$((next + 1))
	done
}
taken() {
	fail "port $port can't be used" "$1" 'another program may have it: name another port with --port NUMBER, or leave out --port'
}

# address FOLDER: the address in the status of the machine with this folder, if it has reported one. The guest wrote
# the line, so it may be incomplete, or no address of a workshop.
address() {
	while read -r word url; do
		case $word:$url in
		url:*[!A-Za-z0-9:/?#=.%_-]*) ;;
		url:http://127.0.0.1:[1-9]*) echo "$url" && break ;;
		esac
	done <"$1/status" 2>/dev/null
}

# If another launcher has the workshop, shows where it is, and ends.
join() {
	other=$(cat "$kept/running" 2>/dev/null)
	waits=''
	while [ -n "$other" ] && [ -e "$other/.workshop" ] && is_ours "$other" && is_alive "$other"; do
		[ -z "$fresh" ] || fail "the workshop is running, so its work can't be discarded" \
			"process $(cat "$other/.launcher") runs it" 'end it with Ctrl-C in its window, then try again'
		url=$(address "$other")
		if [ -n "$url" ]; then
			echo "The workshop: $url"
			echo "It runs in another window. Ctrl-C there ends it."
			browse
			exit 0
		fi
		[ -n "$waits" ] || echo "Waiting for the workshop, which boots in another window ..." >&2
		waits=yes
		sleep 0.1 2>/dev/null || sleep 1
	done
}

# Waits until the server answers, and shows where. If the machine ends before, our caller reports it.
welcome() {
	echo "Waiting for the workshop's server ..." >&2
	since=$(now)
	url=$(address "$tmp")
	until [ -n "$url" ]; do
		[ -z "$stopped" ] && [ ! -e "$tmp/ended" ] && kill -0 "$machine" 2>/dev/null || return
		if [ $(($(now) - since)) -ge "$url_limit" ]; then
			fail "the workshop's server has not answered for $url_limit s" \
				"the console's last lines: $(tr -d '\r' <"$tmp/console" | grep -v '^$' | tail -n 5)" \
				'try again; if that does not help, try another kernel: --kernel VERSION'
		fi
		sleep 0.1 2>/dev/null || sleep 1
		url=$(address "$tmp")
	done
	echo "$port" >"$kept/port"
	echo "The workshop: $url"
	echo "Ctrl-C ends it. Your work is kept in $kept"
	browse
}

# Opens the address in a browser. As an argument, its secret can be seen by this machine's other users, but a file with
# it would not do: a browser from a snap may not read hidden folders.
browse() {
	[ -z "$no_browser" ] || return 0
	case $system in
	Darwin) opener=open ;;
	# Without a display, xdg-open may start a browser in this terminal.
	*) [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && opener=xdg-open || opener=no-display ;;
	esac
	if has $opener; then
		# It goes on when this window closes.
		session=$(command -v setsid)
		(trap - PIPE && umask "$mask" && exec ${session:+setsid} $opener "$url" </dev/null >/dev/null 2>&1 3<&- 5<&-) &
	else
		echo "No program to open a browser was found, so open the address yourself." >&2
	fi
}

# ---- For ./lab check

check_workshop() {
	need_memory=$need_workshop or_less='; a shell needs less: ./lab'
	look_for_memory && echo "can have the $need_memory MiB of memory that it needs"
}
check_port() { choose_port && echo "$port is free"; }
check_browser() {
	needs="the workshop needs Firefox $need_firefox or newer, or version $need_chromium or newer of Chromium, Chrome or Edge"
	seen=''
	set -- /Applications/Firefox.app/Contents/MacOS/firefox '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome' \
		/Applications/Chromium.app/Contents/MacOS/Chromium '/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge'
	for browser in firefox chromium chromium-browser google-chrome microsoft-edge "$@"; do
		has "$browser" || continue
		said=$("$browser" --version </dev/null 2>/dev/null)
		version=$(printf '%s\n' "$said" | sed -n 's/^[^0-9]* \([0-9][0-9]*\)\..*/\1/p')
		need=$need_chromium
		case $said in *Firefox*) need=$need_firefox ;; esac
		if [ "${version:-0}" -ge "$need" ]; then
			echo "$said ($browser)"
			return
		fi
		seen="$seen, ${said:-$browser}"
	done
	[ -z "$seen" ] || seen="too old, or of an unknown version: ${seen#, }"
	echo "${seen:-none was found}; $needs"
	return 2
}
