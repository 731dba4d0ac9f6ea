# fish completion of clusterctl. Load it with: clusterctl completion fish | source
function __clusterctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer ($words[1] __complete fish $words[2..-1] "$current" 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case directories
            __fish_complete_directories "$current" ""
        case words
            printf '%s\n' $answer[2..-1]
    end
end
complete -c clusterctl -f -k -a '(__clusterctl_complete)'
