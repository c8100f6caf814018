cat > M.java <<'PROGRAM'
import java.nio.file.*;
public class M { public static void main(String[] a) throws Exception {
    Files.createDirectories(Path.of("x/y")); Files.writeString(Path.of("x/y/f"), "words".repeat(1000));
    try (var f = new java.io.RandomAccessFile("x/y/f", "rw")) { f.seek(10); f.writeBytes("MID"); f.setLength(100); }
    Files.copy(Path.of("x/y/f"), Path.of("g")); System.out.println(Files.readString(Path.of("g")));
    try (var s = Files.walk(Path.of("x"))) { s.forEach(System.out::println); } Files.move(Path.of("g"), Path.of("h"), StandardCopyOption.ATOMIC_MOVE);
} }
PROGRAM
javac M.java && jar cf m.jar M.class && java -cp m.jar M && rm m.jar M.class
