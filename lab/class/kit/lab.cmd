@echo off
rem Starts the guest of this kit in QEMU on Windows, under emulation. Untested. The full launcher is lab, for Linux.
rem   lab.cmd            start the workshop, if the kit has one, and otherwise open a shell in the guest
rem   lab.cmd shell      open a shell
rem   lab.cmd workshop   start the workshop; Ctrl-C ends it. To use a port other than 8017: set PORT=8018
rem   lab.cmd run 03     run a stage there; also: lab.cmd run 03 --io sync, lab.cmd demo
rem   set KERNEL=7.2     choose another kernel first; also: set ARCH=arm64. Arguments must not contain blanks or quotes.
setlocal
set KIT=%~dp0
set KEPT=%LOCALAPPDATA%\bpf-storage-workbook\workshop
if "%1"=="wait-for-url" goto wait
if not "%1"=="" goto begin
rem After a double click, the window stays until somebody has read the error.
call "%~f0" start
set CODE=%ERRORLEVEL%
if not "%CODE%"=="0" pause
exit /b %CODE%
:begin
if "%ARCH%"=="" if "%PROCESSOR_ARCHITECTURE%"=="ARM64" if exist "%KIT%arm64" set ARCH=arm64
if "%ARCH%"=="" set ARCH=x86_64
if not exist "%KIT%%ARCH%\default" (
  echo Error: this kit has no guest for %ARCH%
  echo   fix: set ARCH=x86_64 or set ARCH=arm64, whichever of these is a folder of the kit:
  dir /b /ad "%KIT%"
  exit /b 1
)
set /p DEFAULT=<"%KIT%%ARCH%\default"
if "%KERNEL%"=="" set KERNEL=%DEFAULT%
set PROGRAM=qemu-system-x86_64.exe
if /i "%ARCH%"=="arm64" set PROGRAM=qemu-system-aarch64.exe
set QEMU=%PROGRAM%
where /q %PROGRAM% || set QEMU=%ProgramFiles%\qemu\%PROGRAM%
where /q %PROGRAM% || if not exist "%QEMU%" (
  echo Error: QEMU, which emulates the guest's machine, is missing
  echo   fix: winget install SoftwareFreedomConservancy.QEMU
  exit /b 1
)
if not exist "%KIT%%ARCH%\vmlinuz-%KERNEL%" (
  echo Error: this kit has no kernel %KERNEL% for %ARCH%
  echo   fix: set KERNEL=... to the version in one of these names:
  dir /b "%KIT%%ARCH%\vmlinuz-*"
  exit /b 1
)
set ARGV=%*
if "%1"=="start" set ARGV=shell
if "%1"=="start" if exist "%KIT%%ARCH%\workshop" set ARGV=workshop
if "%1"=="workshop" if not "%2"=="" goto options
set ARGV=%ARGV: =,%
set SHARED=
set ROOT=initramfs
if not "%ARGV%"=="workshop" goto boot
if not exist "%KIT%%ARCH%\workshop" (
  echo Error: this kit has no workshop
  echo   fix: lab.cmd shell
  exit /b 1
)
set ROOT=workshop
if "%PORT%"=="" set PORT=8017
set ARGV=workshop,--port,%PORT%
if not exist "%KEPT%" mkdir "%KEPT%"
rem What the last session wrote is whole if it has this entry.
findstr /m /c:".workshop-complete" "%KEPT%\work.new" >nul 2>nul && move /y "%KEPT%\work.new" "%KEPT%\work" >nul
del "%KEPT%\status" "%KEPT%\ended" 2>nul
set SHARED=%KEPT:,=,,%
echo Booting the workshop. Your work is kept in %KEPT%
start "" /b cmd /c call "%KIT%lab.cmd" wait-for-url
:boot
rem The machine is that of lab/machine/src/qemu.rs, which explains the options. A test compares them.
rem With the variable SHARED, a folder whose commas are doubled, the guest has a network.
set MIB=1024
set SECOND=null,id=second
set STATUS=null,id=status
set MORE=
if defined SHARED set MIB=2048
if defined SHARED set SECOND=file,id=second,path=%SHARED%\work.new
if defined SHARED set STATUS=file,id=status,path=%SHARED%\status
if defined SHARED set MORE=-netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:%PORT%-:%PORT%,tftp=%SHARED%"
if defined SHARED set MORE=%MORE% -device virtio-net-pci,netdev=net,romfile=
goto %ARCH%
:x86_64
"%QEMU%" -M q35 -m "%MIB%" -smp 2 -accel tcg,thread=single -cpu max,-erms,-fsrm %MORE% -nodefaults -no-user-config ^
  -display none -no-reboot -kernel "%KIT%%ARCH%\vmlinuz-%KERNEL%" -initrd "%KIT%%ARCH%\%ROOT%" ^
  -append "console=ttyS0 panic=-1 norandmaps no_timer_check 8250.nr_uarts=5 lab.argv=%ARGV% lab.term=xterm,24,80" ^
  -chardev null,id=console -serial chardev:console -chardev stdio,id=first,signal=off -serial chardev:first ^
  -chardev "%SECOND%" -serial chardev:second -chardev "%STATUS%" -serial chardev:status ^
  -drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-fs,drive=fs ^
  -drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-raw,drive=raw ^
  -drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-part,drive=part
goto ended
:arm64
"%QEMU%" -M virt -m "%MIB%" -smp 2 -accel tcg,thread=single -cpu cortex-a76 %MORE% -nodefaults -no-user-config ^
  -display none -no-reboot -kernel "%KIT%%ARCH%\vmlinuz-%KERNEL%" -initrd "%KIT%%ARCH%\%ROOT%" ^
  -append "console=ttyAMA0 panic=-1 norandmaps 8250.nr_uarts=5 lab.argv=%ARGV% lab.term=xterm,24,80" ^
  -chardev null,id=console -serial chardev:console -chardev stdio,id=first,signal=off -device pci-serial,chardev=first ^
  -chardev "%SECOND%" -device pci-serial,chardev=second -chardev "%STATUS%" -device pci-serial,chardev=status ^
  -drive if=none,id=fs,format=raw,file.driver=null-co,file.size=256M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-fs,drive=fs ^
  -drive if=none,id=raw,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-raw,drive=raw ^
  -drive if=none,id=part,format=raw,file.driver=null-co,file.size=64M,file.read-zeroes=on,snapshot=on ^
  -device nvme,serial=lab-part,drive=part
goto ended
rem Ends the background process that waits for the address. QEMU itself ends well whatever the guest reports.
:ended
set CODE=%ERRORLEVEL%
if not defined SHARED exit /b %CODE%
echo ended >"%KEPT%\ended"
findstr /b /c:"exit 0" "%KEPT%\status" >nul 2>nul || set CODE=1
exit /b %CODE%
rem In the background: waits for the line with the address, and opens the browser. Windows' ping also waits a second.
:wait
ping -n 2 127.0.0.1 >nul
findstr /b /c:"url http://127.0.0.1:" "%KEPT%\status" >nul 2>nul && goto found
if exist "%KEPT%\ended" exit
goto wait
:found
rem The line may not be complete yet.
ping -n 2 127.0.0.1 >nul
for /f "tokens=2" %%u in ('findstr /b /c:"url http://127.0.0.1:" "%KEPT%\status"') do (
  echo The workshop: %%u
  start "" "%%u"
)
exit
:options
echo Error: lab.cmd workshop has no options
echo   fix: for another port, type set PORT=8018 first; to discard your work, delete %KEPT%
exit /b 1
