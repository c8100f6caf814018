-- Burst buffers of Slurm by Weir: slurmctld calls these functions, and each one asks the planner over its Unix socket.
--
-- Slurm runs job_process, pools and paths inside of slurmctld, which waits for them; the others run in processes of
-- their own and may take as long as a copy takes. So the former have a deadline, and start no program.
-- Needs lua-posix and lua-cjson. docs/guides/slurm.md tells how to install this file.

local SOCKET = os.getenv("WEIR_PLANNER") or "/run/weir/planner.sock"
-- The socket for root and the scheduler's user alone: no other user can fill its queue of connections.
local RESERVED = SOCKET .. ".reserved"
-- Longest time in slurmctld, below the 100 ms that its users notice.
local QUICK_SECONDS = 0.09
-- Time of one question about a step; a step that takes longer is asked for again.
local WAIT_SECONDS = 30
-- Longest time for which a step waits for a planner that is being restarted.
local ABSENCE_SECONDS = 120
-- Most bytes of a script that are sent: the planner refuses a script with more than 64 KiB above its first command.
local SCRIPT_BYTES_MAX = 80 * 1024
-- Most bytes of an answer: an environment takes some kilobytes.
local ANSWER_BYTES_MAX = 1024 * 1024

local SUCCESS, FAILURE = 0, -1

-- A script that cannot be loaded stops slurmctld. A library that is missing is told to the users of directives instead.
local has_libraries, missing = pcall(function()
    return { socket = require("posix.sys.socket"), unistd = require("posix.unistd"), time = require("posix.time"),
             errno = require("posix.errno"), json = require("cjson") }
end)
local library = has_libraries and missing or {}

-- Connections ------------------------------------------------------------------------------------------------------

local function now()
    local time = library.time.clock_gettime(library.time.CLOCK_MONOTONIC)
    return time.tv_sec + time.tv_nsec / 1e9
end

-- Bound the next call on a socket by what is left until the deadline.
local function bound(descriptor, option, deadline)
    local left = deadline - now()
    if left <= 0 then
        return false
    end
    local seconds = math.floor(left)
    -- A time of 0 would be no bound.
    local microseconds = math.max(1000, math.floor((left - seconds) * 1e6))
    library.socket.setsockopt(descriptor, library.socket.SOL_SOCKET, option, seconds, microseconds)
    return true
end

local function connected(descriptor, deadline)
    for _, path in ipairs({ RESERVED, SOCKET }) do
        if not bound(descriptor, library.socket.SO_SNDTIMEO, deadline) then
            return false
        elseif library.socket.connect(descriptor, { family = library.socket.AF_UNIX, path = path }) then
            return true
        end
    end
    return false
end

local function sent(descriptor, text, deadline)
    local from = 1
    while from <= #text do
        if not bound(descriptor, library.socket.SO_SNDTIMEO, deadline) then
            return false
        end
        local count = library.socket.send(descriptor, from == 1 and text or text:sub(from))
        if not count then
            return false
        end
        from = from + count
    end
    return true
end

local function received(descriptor, deadline)
    local parts, total = {}, 0
    while total <= ANSWER_BYTES_MAX do
        if not bound(descriptor, library.socket.SO_RCVTIMEO, deadline) then
            return nil
        end
        local part = library.socket.recv(descriptor, 65536)
        if not part or part == "" then
            return nil
        end
        parts[#parts + 1] = part
        total = total + #part
        if part:sub(-1) == "\n" then
            return table.concat(parts)
        end
    end
    return nil
end

-- Ask once; nil where the planner does not answer in time.
local function ask(request, seconds)
    local deadline = now() + seconds
    local descriptor = library.socket.socket(library.socket.AF_UNIX, library.socket.SOCK_STREAM, 0)
    if not descriptor then
        return nil
    end
    local line
    if connected(descriptor, deadline) and sent(descriptor, library.json.encode(request) .. "\n", deadline) then
        line = received(descriptor, deadline)
    end
    library.unistd.close(descriptor)
    local is_document, answer = pcall(library.json.decode, line or "")
    return is_document and type(answer) == "table" and answer or nil
end

-- Answers ----------------------------------------------------------------------------------------------------------

-- One line for the user: Slurm shows the message at submission, or in the job's reason and comment.
local function words(fault)
    local message = tostring(fault.message or "the planner failed")
    if type(fault.hint) == "string" and fault.hint ~= "" then
        message = message .. " (" .. fault.hint .. ")"
    end
    return (message:gsub("%c+", " "))
end

local function absent()
    return FAILURE, "the planner of Weir does not answer at " .. SOCKET
        .. "; submit again, and tell the administrators if it stays silent"
end

local function unusable()
    return FAILURE, "lua-posix or lua-cjson is missing on the host of slurmctld: "
        .. tostring(missing):gsub("%s+", " "):sub(1, 200)
end

local function name_of(job)
    return "slurm-" .. tostring(job):gsub("[^%w-]", "-")
end

-- Sequences of UTF-8 by their first byte; all other bytes are none.
local SEQUENCES = {
    "^[\194-\223][\128-\191]", "^\224[\160-\191][\128-\191]", "^[\225-\236\238\239][\128-\191][\128-\191]",
    "^\237[\128-\159][\128-\191]", "^\240[\144-\191][\128-\191][\128-\191]",
    "^[\241-\243][\128-\191][\128-\191][\128-\191]", "^\244[\128-\143][\128-\191][\128-\191]",
}

-- Replace bytes that are no UTF-8, which JSON cannot have, by U+FFFD: the planner takes no directive with one.
local function mended(run)
    local parts, at = {}, 1
    while at <= #run do
        local last
        for _, sequence in ipairs(SEQUENCES) do
            last = last or select(2, run:find(sequence, at))
        end
        parts[#parts + 1] = last and run:sub(at, last) or "\239\191\189"
        at = (last or at) + 1
    end
    return table.concat(parts)
end

-- The text of a script for the planner, which alone decides where its directives end and what they say.
local function sendable(text)
    return (text:sub(1, SCRIPT_BYTES_MAX):gsub("[\128-\255]+", mended))
end

local function script_of(path)
    local file, problem = io.open(path, "r")
    if not file then
        return nil, problem
    end
    local text = file:read(SCRIPT_BYTES_MAX) or ""
    file:close()
    -- Slurm writes the end of its own text, too.
    return sendable(text:byte(-1) == 0 and text:sub(1, -2) or text)
end

-- Steps ------------------------------------------------------------------------------------------------------------

-- Ask until there is an answer: a planner that is restarted loses no deployment.
local function ask_patiently(request)
    local deadline = now() + ABSENCE_SECONDS
    repeat
        local answer = ask(request, WAIT_SECONDS + 15)
        if answer and not (type(answer.error) == "table" and answer.error.code == "busy") then
            return answer
        end
        library.time.nanosleep({ tv_sec = 1, tv_nsec = 0 })
    until now() > deadline
    return nil
end

-- States of a deployment in which a step is done.
local DONE = {
    setup = { "started", "staging-in", "ready", "running" },
    stage_in = { "ready", "running" },
    environment = { "running" },
    stage_out = { "staged-out", "kept", "ending", "ended" },
    teardown = { "kept", "ended" },
}

local function is_done(step, state)
    for _, each in ipairs(DONE[step]) do
        if each == state then
            return true
        end
    end
    return false
end

-- Run a step to its end. Slurm bounds the time of the whole, and ends this process. The third value is the kind of a
-- refusal, or the variables of the job.
local function run(step, request)
    if not has_libraries then
        return unusable()
    end
    request.request = request.request or step
    request.wait_seconds = WAIT_SECONDS
    while true do
        local answer = ask_patiently(request)
        if not answer then
            return absent()
        elseif type(answer.error) == "table" then
            return FAILURE, words(answer.error), answer.error.code
        elseif answer.result.state == "failed" then
            return FAILURE, words({ message = answer.result.error, hint = answer.result.hint }), "failed"
        elseif is_done(step, answer.result.state) then
            return SUCCESS, answer.result.state, answer.result.environment
        end
        if answer.result.step == nil or answer.result.step == "" then
            -- Nothing is under way, as where a job waits for a store to share: the planner answers at once.
            library.time.nanosleep({ tv_sec = 1, tv_nsec = 0 })
        end
    end
end

local function output_of(command)
    local pipe = io.popen(command .. " 2>/dev/null")
    local text = pipe and pipe:read("*a") or ""
    if pipe then
        pipe:close()
    end
    return text
end

-- Slurm's folder of the job, which belongs to Slurm's user alone, and goes with the job.
local function folder_of(job, path)
    local folder = path and path:match("^(.*/job%.%d+)/[^/]+$")
    if folder then
        return folder
    end
    -- Where Slurm replaced symbols such as %u, the path is that of a copy.
    local state = output_of("scontrol show config"):match("\nStateSaveLocation%s*=%s*([^\n]-)%s*\n")
    return state and string.format("%s/hash.%d/job.%d", state, tonumber(job) % 10, tonumber(job))
end

local function read_whole(path)
    local file = path and io.open(path, "r")
    if not file then
        return nil
    end
    local text = file:read("*a")
    file:close()
    return text
end

local function write_whole(path, text)
    local file, problem = io.open(path, "w")
    local is_written = file and file:write(text)
    if file then
        is_written = file:close() and is_written
    end
    return is_written, problem
end

-- The job as slurmctld knows it. Only processes apart from slurmctld may ask: slurmctld waits for its own functions.
local function scheduled(job, path)
    -- Numbers alone: where a name of the user's stands in the line too, it can look like any other field.
    local line = output_of("squeue --noheader --noconvert --states=all --format='%U %D' --jobs=" .. tonumber(job))
    -- The least number of nodes, where the job leaves a choice: 2-4.
    local uid, nodes = line:match("^%s*(%d+) +(%d+)")
    -- The file is from Slurm's own argument. It is there from the setup on, also when Slurm has forgotten the job.
    local kept = tonumber(read_whole((folder_of(job, path) or "") .. "/weir-uid") or "")
    return { uid = kept or tonumber(uid), nodes = tonumber(nodes) }
end

-- Functions in slurmctld -------------------------------------------------------------------------------------------

-- Also for job_submit.lua, which has the text before there is a file, and knows the user and the least number of nodes.
function weir_validate(text, uid, nodes)
    if not has_libraries then
        return unusable()
    elseif text:sub(1, 2) ~= "#!" then
        -- As sbatch, which other clients of slurmctld need not be. A jobspec would take longer to read.
        return FAILURE, "the script does not begin with #!"
    end
    local answer = ask({ request = "validate", script = sendable(text), uid = uid, nodes = nodes }, QUICK_SECONDS)
    if not answer then
        return absent()
    elseif type(answer.error) == "table" then
        return FAILURE, words(answer.error)
    end
    return SUCCESS
end

function slurm_bb_job_process(path, uid)
    local script, problem = script_of(path)
    if not script then
        return FAILURE, "the script cannot be read: " .. tostring(problem)
    end
    -- Slurm 22.05 does not tell the user.
    return weir_validate(script, tonumber(uid))
end

function slurm_bb_pools()
    local answer = has_libraries and ask({ request = "pools" }, QUICK_SECONDS)
    local pools = {}
    if answer and type(answer.result) == "table" then
        for _, pool in ipairs(answer.result.pools) do
            local unit = math.max(1, pool.granularity_bytes)
            -- Slurm counts in units. Written by hand: the library writes numbers from 10^14 on with an exponent, which
            -- is no whole number.
            pools[#pools + 1] = string.format('{"id":%s,"granularity":%.0f,"quantity":%.0f,"free":%.0f}',
                                              library.json.encode(pool.name), unit, math.floor(pool.total_bytes / unit),
                                              math.floor(pool.free_bytes / unit))
        end
    end
    if #pools == 0 then
        -- Without an answer too: an error here would let Slurm take jobs without asking whether they are valid.
        return SUCCESS
    end
    return SUCCESS, '{"pools":[' .. table.concat(pools, ",") .. "]}"
end

-- The variables lie beside Slurm's own files, so that a job starts also while the planner is restarted.
function slurm_bb_paths(_, _, path_file)
    local text = read_whole((path_file:match("^(.*)/") or ".") .. "/weir-environment")
    if not text then
        return FAILURE, "the job's storage was not set up"
    end
    local is_written, problem = write_whole(path_file, text)
    if not is_written then
        return FAILURE, "the job's variables cannot be written: " .. tostring(problem)
    end
    return SUCCESS
end

-- Functions in processes of their own ------------------------------------------------------------------------------

function slurm_bb_setup(job, uid, _, _, _, path)
    if not has_libraries then
        return unusable()
    end
    local script, problem = script_of(path)
    if not script then
        return FAILURE, "the script cannot be read: " .. tostring(problem)
    end
    -- Both come from Slurm: a user who names others in the script changes neither.
    local owner, nodes = tonumber(uid), scheduled(job, path).nodes
    local folder = folder_of(job, path)
    if not folder or not write_whole(folder .. "/weir-uid", tostring(owner)) then
        return FAILURE, "Slurm's folder of the job cannot be written"
    end
    local answer = ask_patiently({ request = "plan", name = name_of(job), uid = owner, script = script, nodes = nodes,
                                   job = tostring(job) })
    if not answer then
        return absent()
    -- The deployment is there already where Slurm asks again.
    elseif type(answer.error) == "table" and answer.error.code ~= "conflict" then
        return FAILURE, words(answer.error)
    end
    return run("setup", { name = name_of(job), uid = owner })
end

local function step_of(step, job, path, fields)
    if not has_libraries then
        return unusable()
    end
    local request = fields or {}
    request.name, request.uid = name_of(job), scheduled(job, path).uid
    if not request.uid then
        return FAILURE, "Slurm does not know the user of job " .. tostring(job)
    end
    return run(step, request)
end

-- Slurm takes a variable a line. All others stay as the user submitted them.
local function lines_of(environment)
    local lines = {}
    for name, value in pairs(environment) do
        if (name == "LD_PRELOAD" or name:find("^WEIR_[%u_]+$")) and not value:find("[\n%z]") then
            lines[#lines + 1] = name .. "=" .. value .. "\n"
        end
    end
    table.sort(lines)
    return table.concat(lines)
end

function slurm_bb_data_in(job, path)
    local code, message = step_of("stage_in", job, path)
    if code ~= SUCCESS then
        return code, message
    end
    -- slurm_bb_paths tells the variables inside of slurmctld, before pre_run: they have to be there by then.
    local environment
    code, message, environment = step_of("environment", job, path)
    if code ~= SUCCESS then
        return code, message
    end
    local is_written, problem = write_whole(folder_of(job, path) .. "/weir-environment",
                                            lines_of(environment))
    if not is_written then
        return FAILURE, "the job's variables cannot be written: " .. tostring(problem)
    end
    return SUCCESS
end

function slurm_bb_pre_run()
    return SUCCESS
end

function slurm_bb_post_run()
    return SUCCESS
end

-- Where the output lies that could not be staged out.
local function place_of(job, path)
    local answer = ask_patiently({ request = "paths", name = name_of(job), uid = scheduled(job, path).uid })
    local mount = answer and type(answer.result) == "table" and answer.result.environment.WEIR_MOUNT
    return mount and "in " .. mount or "in the storage " .. name_of(job)
end

function slurm_bb_data_out(job, path)
    local code, message = step_of("stage_out", job, path)
    if code ~= SUCCESS and has_libraries then
        message = message .. "; the output is kept " .. place_of(job, path)
    end
    return code, message
end

function slurm_bb_job_teardown(job, path, hurry)
    -- Slurm hurries where the job never ran, or its user cancelled it so. Otherwise output that is not out is kept.
    local discard = hurry == "true"
    local fields = { request = discard and "end" or "teardown", discard = discard }
    local code, message, reason = step_of("teardown", job, path, fields)
    local folder = folder_of(job, path)
    if folder then
        os.remove(folder .. "/weir-environment")
    end
    if reason == "missing" or (reason == "conflict" and not discard) then
        return SUCCESS, message
    end
    return code, message
end

function slurm_bb_real_size()
    return SUCCESS
end

-- The arguments do not tell who asks in every version of Slurm, so the answer has nothing of a user.
function slurm_bb_get_status()
    if not has_libraries then
        return unusable()
    end
    local answer = ask({ request = "pools" }, WAIT_SECONDS)
    if not answer or type(answer.result) ~= "table" then
        return absent()
    end
    local lines = {}
    for _, pool in ipairs(answer.result.pools) do
        lines[#lines + 1] = string.format("%s: %.1f of %.1f GiB free", pool.name, pool.free_bytes / 2 ^ 30,
                                          pool.total_bytes / 2 ^ 30)
    end
    return SUCCESS, table.concat(lines, "\n") .. "\n"
end
