-- Slurm reads directives of burst buffers up to the first line that does not begin with #; sbatch reads its options
-- beyond lines of blanks and indented comments. This file levels such lines when a job is submitted, so that Slurm sees
-- each directive that sbatch would, and has the planner refuse a script whose directives Slurm would drop.
--
-- It belongs beside slurm.conf, which has `JobSubmitPlugins=lua`, and beside burst_buffer.lua. A site with a file of its
-- own calls weir_level(job_desc.script, job_desc.user_id, nodes) there.

dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "./") .. "burst_buffer.lua")

-- Most bytes that are looked at: the planner refuses a script with more above its first command.
local HEADER_BYTES_MAX = 80 * 1024

-- Slurm's number of a refused burst buffer, and the one that stands for a number that nobody gave (slurm.h).
local INVALID_REQUEST, NO_VALUE = 2094, 0xfffffffe

-- The script, whose lines above the first command all begin with #.
local function levelled(script)
    local lines, at = {}, 1
    while at <= #script and at <= HEADER_BYTES_MAX do
        local last = script:find("\n", at, true) or #script + 1
        local line = script:sub(at, last - 1)
        local first = line:match("^[ \t\v\f\r]*([^ \t\v\f\r]?)")
        if first ~= "" and first ~= "#" then
            break
        elseif line:sub(1, 1) ~= "#" then
            line = first == "" and "" or "#" .. line
        end
        lines[#lines + 1] = line
        at = last + 1
    end
    lines[#lines + 1] = script:sub(at)
    return table.concat(lines, "\n")
end

-- The script as Slurm is to have it; nil and the words of a refusal where the planner refuses it.
function weir_level(script, uid, nodes)
    if not script or not script:sub(1, HEADER_BYTES_MAX):find("#%s*[Ww][Ee][Ii][Rr]%s") then
        return script
    end
    local code, problem = weir_validate(script, uid, nodes)
    if code ~= slurm.SUCCESS then
        return nil, problem
    end
    return levelled(script)
end

function slurm_job_submit(job_desc)
    local nodes = job_desc.min_nodes
    if not nodes or nodes >= NO_VALUE then
        nodes = 1
    end
    local script, problem = weir_level(job_desc.script, job_desc.user_id, nodes)
    if problem then
        slurm.log_user("%s", problem)
        return INVALID_REQUEST
    elseif script ~= job_desc.script then
        job_desc.script = script
    end
    return slurm.SUCCESS
end

function slurm_job_modify()
    return slurm.SUCCESS
end
