# keeper.sh DATA LOGS: ends what a test process started, once that process is gone.
#
# Standard input is a pipe that only the test process holds, so its end comes however the process ended, SIGKILL
# included. Lines: "started PID", "ended PID", "opened" and "closed" (a log), "failed" (a test did).
# DATA is removed always; LOGS unless a test failed or was cut off in the middle.
trap '' INT TERM HUP
data=$1 logs=$2 running='' open=0 failed=0

# the ten newest runs' logs are enough
ls -1dt "${logs%/*}"/*/ 2>/dev/null | tail -n +11 | while read -r old; do rm -rf "$old"; done

while read -r word pid; do
    case $word in
        started) running="$running $pid" ;;
        ended) left=''; for p in $running; do [ "$p" = "$pid" ] || left="$left $p"; done; running=$left ;;
        opened) open=$((open + 1)) ;;
        closed) open=$((open - 1)) ;;
        failed) failed=1 ;;
    esac
done

any() { for p in $running; do kill -0 "$p" 2>/dev/null && return 0; done; return 1; }

# SIGQUIT first: it makes PostgreSQL end its own children and give back its shared memory
for p in $running; do kill -QUIT "$p" 2>/dev/null; done
for _ in 1 2 3 4 5 6 7 8 9 10; do any || break; sleep 0.1; done
for p in $running; do kill -KILL "-$p" 2>/dev/null; done
rm -rf "$data"
[ "$open" -gt 0 ] || [ "$failed" = 1 ] || rm -rf "$logs"
